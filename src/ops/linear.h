// y = x W + b, alone and with GELU behind it.
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

// gelu(x W + b). x: [..., in] -> [..., out]
at::Tensor linear_gelu(const at::Tensor& x, const LinearWeights& weights, GeluForm form, const Context& context);

}  // namespace inkling
