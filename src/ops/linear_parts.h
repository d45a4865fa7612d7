// What linear layers are made of, on the CPU and on a GPU. All matrices here are [rows, channels].
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

#include "ops/linear.h"

namespace inkling {

// x W + b
at::Tensor product(const at::Tensor& x, const LinearWeights& weights);

// (x W + b, gelu of it). repeatable: with the bits that gelu_again() gives.
std::pair<at::Tensor, at::Tensor> product_with_gelu(const at::Tensor& x, const LinearWeights& weights, GeluForm form,
                                                    bool repeatable);

at::Tensor gelu_again(const at::Tensor& pre, GeluForm form);

// The gradient of x: dy W^T.
at::Tensor input_gradient(const at::Tensor& dy, const Weight& weight);

// The same through a GELU in front of the product: (dy W^T) gelu'(pre). Adds its column sums to the gradient of `bias`,
// which was added to pre.
at::Tensor input_gradient_through_gelu(const at::Tensor& dy, const Weight& weight, const at::Tensor& pre,
                                       const Weight& bias, GeluForm form);

// dW += x^T dy, or dW = x^T dy, straight into the arena.
void add_weight_gradient(const at::Tensor& x, const at::Tensor& dy, const Weight& weight, bool overwrites);

// db += the column sums of dy, if there is a bias.
void add_bias_gradient(const at::Tensor& dy, const Weight& bias);

}  // namespace inkling
