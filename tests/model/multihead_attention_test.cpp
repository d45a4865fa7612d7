// Our attention layer against LibTorch's own module with the same weights.
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/activation.h>

#include <limits>

#include "backend/cpu_backend.h"
#include "model/operations.h"
#include "tests/oracle/rounding.h"
#include "tests/oracle/tensors.h"

namespace inkling {
namespace {

// [in, out] and [out], as our Conv1D layout has it; the module's Linear layers hold the transposed.
LinearWeights make_weights(std::uint64_t key, std::int64_t in, std::int64_t out) {
  const auto make = [](const at::Tensor& values) {
    const at::Tensor value = values.to(at::kFloat).set_requires_grad(true);
    const at::Tensor gradient = at::zeros_like(value).detach();
    value.mutable_grad() = gradient;
    return Weight{value, gradient};
  };
  return {make(oracle::normal(key, {in, out}, 0.2)), make(oracle::normal(key + 1, {out}, 0.2))};
}

TEST(Attention, IsLibTorchsMultiheadAttentionWithTheSameWeights) {
  const std::int64_t batch = 3, time = 13, channels = 24, n_head = 4;
  const LinearWeights c_attn = make_weights(1, channels, 3 * channels), c_proj = make_weights(3, channels, channels);
  torch::nn::MultiheadAttention theirs(torch::nn::MultiheadAttentionOptions(channels, n_head));
  {
    const at::NoGradGuard no_gradients;
    theirs->in_proj_weight.copy_(c_attn.weight.value.t());
    theirs->in_proj_bias.copy_(c_attn.bias.value);
    theirs->out_proj->weight.copy_(c_proj.weight.value.t());
    theirs->out_proj->bias.copy_(c_proj.bias.value);
  }
  const at::Tensor x = oracle::normal(5, {batch, time, channels}).to(at::kFloat);
  // The C++ module adds its mask to the scores, so a mask of bool would add ones.
  const at::Tensor future = at::full({time, time}, -std::numeric_limits<double>::infinity(), at::kFloat).triu(1);
  const at::Tensor theirs_in = x.transpose(0, 1).contiguous().set_requires_grad(true);  // [T, B, C]
  const auto [theirs_out, theirs_weights] = theirs->forward(theirs_in, theirs_in, theirs_in, {}, false, future);
  const at::Tensor upstream = oracle::normal(6, {batch, time, channels}).to(at::kFloat);
  theirs_out.backward(upstream.transpose(0, 1));

  const at::Tensor ours_in = x.clone().set_requires_grad(true);
  for (const LinearWeights& weights : {c_attn, c_proj}) {
    weights.weight.gradient.zero_();
    weights.bias.gradient.zero_();
  }
  Pass pass{.backend = cpu_backend()};
  const at::Tensor ours =
      linear(attention(linear(ours_in, c_attn, pass), {n_head, n_head, channels / n_head}, pass), c_proj, pass);
  ours.backward(upstream);
  // Two products over 24 channels, scores over heads of 6, 13 keys. Both sides have errors.
  const double roundings = 2 * 24 + oracle::in_softmax(6, 2.4) + 13 + oracle::function_roundings;
  const double gradient_error = 2 * oracle::rounding_error(3 * roundings + 3 * 13);
  EXPECT_LT(oracle::error(ours, theirs_out.transpose(0, 1)), 2 * oracle::rounding_error(roundings));
  EXPECT_LT(oracle::error(ours_in.grad(), theirs_in.grad().transpose(0, 1)), gradient_error);
  EXPECT_LT(oracle::error(c_attn.weight.gradient, theirs->in_proj_weight.grad().t()), gradient_error);
  EXPECT_LT(oracle::error(c_attn.bias.gradient, theirs->in_proj_bias.grad()), gradient_error);
  EXPECT_LT(oracle::error(c_proj.weight.gradient, theirs->out_proj->weight.grad().t()), gradient_error);
  EXPECT_LT(oracle::error(c_proj.bias.gradient, theirs->out_proj->bias.grad()), gradient_error);
}

}  // namespace
}  // namespace inkling
