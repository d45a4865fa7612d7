// The CUDA twins of the loops in cpu_kernels.h: same names, same meaning, same float32 arrays, on device memory.
// Not used by ops/ before they have passed on a real GPU (scripts/gpu-check runs their tests); until then a GPU run
// computes with LibTorch's own operations. No atomics: the same input gives the same bits.
#pragma once

#include <cstdint>

#include "kernels/kernel_settings.h"

namespace inkling::cuda {

using Stream = void*;  // a cudaStream_t; null is the default stream. Every function returns as soon as it is launched.

// As CpuKernels::layer_norm_forward. Error environment if the launch fails, here and below.
void layer_norm_forward(const float* x, const float* branch, float* sum, float* out, float* mean, float* rstd,
                        const float* weight, const float* bias, std::int64_t rows, std::int64_t channels,
                        Stream stream);

// As CpuKernels::layer_norm_backward. scratch: column_scratch(channels) floats, twice.
void layer_norm_backward(const float* dout, const float* dsum, const float* sum, const float* mean, const float* rstd,
                         const float* weight, float* dx, float* dweight, float* dbias, float* scratch,
                         std::int64_t rows, std::int64_t channels, Stream stream);

void gelu_forward(float* pre, const float* bias, float* out, GeluForm form, std::int64_t rows, std::int64_t channels,
                  Stream stream);
// scratch: column_scratch(channels) floats; unused where dbias is null.
void gelu_backward(const float* dout, const float* pre, float* dpre, float* dbias, float* scratch, GeluForm form,
                   std::int64_t rows, std::int64_t channels, Stream stream);

// As CpuKernels::cross_entropy, but row by row: losses [rows] in nats, 0 where a target is not scored.
void cross_entropy(float* logits, const std::int64_t* targets, float* losses, float scale, std::int64_t rows,
                   std::int64_t vocabulary, Stream stream);

// Adds the column sums of x [rows, C] to sums [C]. scratch: column_scratch(channels) floats.
void add_column_sums(const float* x, float* sums, float* scratch, std::int64_t rows, std::int64_t channels,
                     Stream stream);

void adamw(float* value, const float* gradient, float* moment1, float* moment2, const AdamWSettings& settings,
           std::int64_t n, Stream stream);

void dropout(float* x, std::uint64_t key, std::uint64_t first, std::uint32_t threshold, float scale, std::int64_t n,
             Stream stream);

// Floats of scratch that a sum over rows needs: one partial sum per column and part.
std::int64_t column_scratch(std::int64_t channels);

}  // namespace inkling::cuda
