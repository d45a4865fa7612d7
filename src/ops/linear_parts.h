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

// dW += x^T dy, or dW = x^T dy if the pass overwrites, and db += the column sums of dy, straight into the arena.
void add_gradients(const at::Tensor& x, const at::Tensor& dy, const LinearWeights& weights, bool overwrites);

// The same for the c_fc of an MLP, whose product is pre, given the gradient dy behind c_proj. Returns that of pre.
at::Tensor add_gradients_through_gelu(const at::Tensor& x, const at::Tensor& pre, const at::Tensor& dy,
                                      const MlpWeights& weights, GeluForm form, bool overwrites);

}  // namespace inkling
