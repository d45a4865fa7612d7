// y = x W + b, alone and twice with GELU in between.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/cpu_kernels.h"
#include "ops/context.h"

namespace inkling {

struct LinearWeights {
  Weight weight;  // [in, out], as in Hugging Face's Conv1D
  Weight bias;    // [out] or undefined
};

// x: [..., in] -> [..., out]
at::Tensor linear(const at::Tensor& x, const LinearWeights& weights, const Context& context);

struct MlpWeights {
  LinearWeights c_fc;    // [C, 4C]
  LinearWeights c_proj;  // [4C, C]
};

// Each token alone: four times as wide, GELU, and back. x: [..., C] -> [..., C]
at::Tensor mlp(const at::Tensor& x, const MlpWeights& weights, GeluForm form, const Context& context);

}  // namespace inkling
