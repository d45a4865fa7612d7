// LayerNorm, alone and with the residual addition in front of it.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

#include "ops/context.h"

namespace inkling {

struct NormWeights {
  Weight weight;  // [C]
  Weight bias;    // [C] or undefined
};

// x: [..., C] -> [..., C]. Ba, Kiros, Hinton 2016; epsilon 1e-5.
at::Tensor layer_norm(const at::Tensor& x, const NormWeights& weights, const Context& context);

// (x + branch, layer_norm(x + branch)): the residual stream goes on beside its normalised copy.
std::pair<at::Tensor, at::Tensor> add_layer_norm(const at::Tensor& x, const at::Tensor& branch,
                                                 const NormWeights& weights, const Context& context);

}  // namespace inkling
