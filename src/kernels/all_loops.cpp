// Compiled once per instruction set (src/CMakeLists.txt): INKLING_ISA is its name. Only loops may be in here, no
// inline function of the standard library that the linker could hand to another file and so to an older processor.
#include "base/random.h"
#include "kernels/activation.h"
#include "kernels/attention.h"
#include "kernels/conv.h"
#include "kernels/cpu_kernels.h"
#include "kernels/cross_entropy.h"
#include "kernels/decode.h"
#include "kernels/embedding.h"
#include "kernels/flat_memory.h"
#include "kernels/norm.h"
#include "kernels/rotate.h"

#define INKLING_STRINGIZE(name) #name
#define INKLING_NAME(name) INKLING_STRINGIZE(name)

namespace inkling::INKLING_ISA {

extern const CpuKernels kernels;
const CpuKernels kernels = {
    .name = INKLING_NAME(INKLING_ISA),
    .norm_forward = norm_forward,
    .norm_backward = norm_backward,
    .activation_forward = activation_forward,
    .activation_backward = activation_backward,
    .attention_forward = attention_forward,
    .attention_backward = attention_backward,
    .attention_scratch = attention_scratch,
    .cross_entropy = cross_entropy,
    .embedding_forward = embedding_forward,
    .embedding_backward = embedding_backward,
    .rotate = rotate,
    .conv_forward = conv_forward,
    .conv_backward = conv_backward,
    .conv_cached = conv_cached,
    .add_column_sums = add_column_sums,
    .adamw = adamw,
    .muon_momentum = muon_momentum,
    .muon_step = muon_step,
    .add = add,
    .sum_of_squares = sum_of_squares,
    .dropout = dropout,
    .rows_times_lines = rows_times_lines<float>,
    .rows_times_lines_bfloat16 = rows_times_lines<std::uint16_t>,
    .rows_times_transposed = rows_times_transposed<float>,
    .rows_times_transposed_bfloat16 = rows_times_transposed<std::uint16_t>,
    .attend_cached = attend_cached,
};

}  // namespace inkling::INKLING_ISA
