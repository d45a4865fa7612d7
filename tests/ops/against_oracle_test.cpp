// Every operation, forward and backward, against the oracle in float64, in every setting. How far a result may be off
// is counted from the operation: the sums on the way to it, and the tensors that are kept on the way.
#include <ATen/TensorOperators.h>
#include <ATen/ops/full_like.h>

#include <array>
#include <tuple>

#include "ops/attention.h"
#include "ops/cross_entropy.h"
#include "ops/dropout.h"
#include "ops/embedding.h"
#include "ops/layer_norm.h"
#include "ops/linear.h"
#include "tests/oracle/ops.h"
#include "tests/oracle/tensors.h"
#include "tests/oracle/tolerances.h"

namespace inkling {
namespace {

using oracle::function_roundings;
using oracle::in_softmax;
using oracle::normal;
using oracle::Roundings;

// Most inputs are [3, 17, C]: gradients of weights are sums over 51 rows, added to what is there.
constexpr double rows = 3 * 17 + 1;

// What the operation reads, and the same values (after rounding) in float64.
struct Input {
  at::Tensor ours, plain;
};

// A weight as the arena makes it, whose gradient has something in it already.
struct TestWeight {
  Weight ours;
  at::Tensor plain;
  static constexpr double gradient_before = 0.5;
};

class OpMatchesOracle : public oracle::OnEverySetting {
 protected:
  at::Tensor leaf(const at::Tensor& values) const { return values.to(options()).set_requires_grad(true); }

  Input input(std::uint64_t key, at::IntArrayRef shape, double scale = 1.0) const {
    const at::Tensor ours = leaf(normal(key, shape, scale));
    return {ours, ours.detach().to(at::kCPU, at::kDouble).set_requires_grad(true)};
  }

  TestWeight weight(std::uint64_t key, at::IntArrayRef shape, double scale = 1.0) const {
    const auto [ours, plain] = input(key, shape, scale);
    const auto dtype = fused() ? at::kFloat : ours.scalar_type();
    const at::Tensor gradient = at::full_like(ours, TestWeight::gradient_before, ours.options().dtype(dtype)).detach();
    if (!fused()) ours.mutable_grad() = gradient;
    return {{ours, gradient}, plain};
  }

  // weights: the matrix and bias of either layer.
  static at::Tensor plain_mlp(const at::Tensor& x, const std::array<TestWeight, 4>& weights, GeluForm form, bool bias) {
    const auto shift = [&](std::size_t i) { return bias ? weights[i].plain : at::Tensor(); };
    const at::Tensor wide = oracle::gelu(oracle::linear(x, weights[0].plain, shift(1)), form == GeluForm::exact);
    return oracle::linear(wide, weights[2].plain, shift(3));
  }

  // Sends the same gradient back through both results.
  void expect_same_result(const at::Tensor& ours, const at::Tensor& plain, const Roundings& roundings) const {
    EXPECT_LT(oracle::error(ours, plain), tolerance(roundings)) << "forward";
    const at::Tensor upstream = normal(99, plain.sizes()).to(options());
    ours.backward(upstream.to(ours.scalar_type()));
    plain.backward(upstream.to(at::kCPU, at::kDouble));
  }

  void expect_same_gradient(const Input& in, const Roundings& roundings) const {
    EXPECT_LT(oracle::error(in.ours.grad(), in.plain.grad()), tolerance(roundings)) << "gradient of the input";
  }

  void expect_same_gradient(const TestWeight& weight, const char* name, const Roundings& roundings) const {
    const at::Tensor expected = weight.plain.grad() + TestWeight::gradient_before;
    EXPECT_LT(oracle::error(weight.ours.gradient, expected), tolerance(roundings)) << "gradient of the " << name;
  }
};

TEST_P(OpMatchesOracle, Embedding) {
  const TestWeight table = weight(1, {11, 24}), positions = weight(2, {9, 24});
  const at::Tensor tokens = oracle::tokens(3, {5, 7}, 11);  // tokens repeat
  expect_same_result(embedding(tokens.to(options().device()), {table.ours, positions.ours}, context()),
                     oracle::embedding(tokens, table.plain, positions.plain), {.sums = 2});
  // Autograd keeps a table's gradient in the dtype while it adds up to 35 rows.
  expect_same_gradient(table, "token table", {.sums = 36, .kept = 36});
  expect_same_gradient(positions, "position table", {.sums = 36, .kept = 36});
}

// The mean and the variance of 40 channels, and the root. What is kept backward: mean, rstd, the result.
constexpr Roundings norm_forward = {.sums = 2 * 40 + function_roundings, .kept = 2};
constexpr Roundings norm_backward = {.sums = 2 * norm_forward.sums, .kept = 4};
constexpr Roundings norm_weights = {.sums = norm_forward.sums + rows, .kept = 4};

TEST_P(OpMatchesOracle, LayerNorm) {
  for (const bool bias : {true, false}) {
    const Input x = input(1, {3, 17, 40});
    const TestWeight scale = weight(2, {40}), shift = weight(3, {40});
    const NormWeights weights{scale.ours, bias ? shift.ours : Weight{}};
    expect_same_result(layer_norm(x.ours, weights, context()),
                       oracle::layer_norm(x.plain, scale.plain, bias ? shift.plain : at::Tensor()), norm_forward);
    expect_same_gradient(x, norm_backward);
    expect_same_gradient(scale, "weight", norm_weights);
    if (bias) expect_same_gradient(shift, "bias", norm_weights);
  }
}

TEST_P(OpMatchesOracle, AddLayerNorm) {
  for (const bool sum_is_used : {true, false}) {  // behind the last block only the norm goes on
    const Input x = input(1, {3, 17, 40}), branch = input(4, {3, 17, 40});
    const TestWeight scale = weight(2, {40}), shift = weight(3, {40});
    const auto [sum, normed] = add_layer_norm(x.ours, branch.ours, {scale.ours, shift.ours}, context());
    const at::Tensor plain_sum = x.plain + branch.plain;
    const at::Tensor plain_normed = oracle::layer_norm(plain_sum, scale.plain, shift.plain);
    EXPECT_LT(oracle::error(sum, plain_sum), tolerance({}));
    const Roundings forward = {norm_forward.sums + 2, norm_forward.kept + 2};  // the sum and the product, too
    if (sum_is_used) {
      expect_same_result(normed * sum, plain_normed * plain_sum, forward);
    } else {
      expect_same_result(normed, plain_normed, forward);
    }
    const Roundings backward = {norm_backward.sums + 4, norm_backward.kept + 4};
    expect_same_gradient(x, backward);
    expect_same_gradient(branch, backward);
    const Roundings of_weights = {norm_weights.sums + 4, norm_weights.kept + 4};
    expect_same_gradient(scale, "weight", of_weights);
    expect_same_gradient(shift, "bias", of_weights);
  }
}

TEST_P(OpMatchesOracle, Linear) {
  for (const bool bias : {true, false}) {
    const Input x = input(1, {3, 17, 24});
    const TestWeight matrix = weight(2, {24, 40}), shift = weight(3, {40});
    const LinearWeights weights{matrix.ours, bias ? shift.ours : Weight{}};
    expect_same_result(linear(x.ours, weights, context()),
                       oracle::linear(x.plain, matrix.plain, bias ? shift.plain : at::Tensor()),
                       {.sums = 24 + 1, .kept = 2});
    expect_same_gradient(x, {.sums = 40});
    expect_same_gradient(matrix, "matrix", {.sums = rows, .kept = 2});
    if (bias) expect_same_gradient(shift, "bias", {.sums = rows, .kept = 2});
  }
}

// From 24 channels to 40 and back. Kept: both products with and without their bias, and GELU between them. Backward,
// the wide side's gradient has gone through both matrices and GELU's slope.
constexpr Roundings mlp_forward = {.sums = 25 + 2 * function_roundings + 41, .kept = 5};
constexpr Roundings mlp_inner = {.sums = 25 + 4 * function_roundings + 24, .kept = 5};

TEST_P(OpMatchesOracle, Mlp) {
  for (const auto& [form, bias, recompute] : {std::tuple(GeluForm::tanh, true, Recompute::none),
                                              {GeluForm::tanh, false, Recompute::gelu},
                                              {GeluForm::exact, true, Recompute::gelu},
                                              {GeluForm::exact, false, Recompute::none}}) {
    const Input x = input(1, {3, 17, 24});
    const TestWeight in = weight(2, {24, 40}), in_shift = weight(3, {40}), out = weight(4, {40, 24}),
                     out_shift = weight(5, {24});
    const MlpWeights weights{{in.ours, bias ? in_shift.ours : Weight{}}, {out.ours, bias ? out_shift.ours : Weight{}}};
    Context ours = context();
    ours.recompute = recompute;
    expect_same_result(mlp(x.ours, weights, form, ours), plain_mlp(x.plain, {in, in_shift, out, out_shift}, form, bias),
                       mlp_forward);
    expect_same_gradient(x, {.sums = mlp_inner.sums + 40, .kept = mlp_inner.kept + 1});
    const Roundings of_weights = {.sums = mlp_inner.sums + rows, .kept = mlp_inner.kept + 1};
    expect_same_gradient(in, "matrix to the wide side", of_weights);
    expect_same_gradient(out, "matrix back", of_weights);
    if (!bias) continue;
    expect_same_gradient(in_shift, "bias on the wide side", of_weights);
    expect_same_gradient(out_shift, "bias behind it", of_weights);
  }
}

TEST_P(OpMatchesOracle, CausalAttention) {
  for (const auto& [time, head_size] : {std::pair<std::int64_t, std::int64_t>{1, 8}, {7, 5}, {70, 16}}) {
    const std::int64_t n_head = 3;
    const Input qkv = input(1, {2, time, 3 * n_head * head_size});
    Context ours = context();
    oracle::Dropout none;
    // Scores have the standard deviation 1. LibTorch may keep them and the probabilities.
    const auto scores = in_softmax(static_cast<double>(head_size), 2.0);
    const Roundings forward = {.sums = scores + static_cast<double>(time) + function_roundings,
                               .kept = in_softmax(1, 2.0) + 2};
    expect_same_result(causal_attention(qkv.ours, n_head, ours), oracle::causal_attention(qkv.plain, n_head, none),
                       forward);
    const auto more = static_cast<double>(time + head_size);  // the probabilities' gradient, and a sum over the queries
    expect_same_gradient(qkv, {.sums = 2 * forward.sums + more, .kept = 2 * forward.kept});
  }
}

TEST_P(OpMatchesOracle, HeadCrossEntropy) {
  const Input x = input(1, {3, 17, 24});
  const TestWeight table = weight(2, {65, 24}, 0.2);  // logits of standard deviation 1
  at::Tensor targets = oracle::tokens(3, {3, 17}, 65);
  targets.slice(1, 5, 9).fill_(not_scored);
  const at::Tensor logits = oracle::linear(x.plain, table.plain.t(), {});
  const at::Tensor loss = head_cross_entropy(x.ours, table.ours, targets.to(options().device()), context());
  EXPECT_EQ(loss.scalar_type(), at::kFloat);
  // The logits, and the logarithms of probabilities that LibTorch makes of them: as large as their mean.
  const auto size = oracle::cross_entropy(logits, targets).item<double>();
  const Roundings forward = {.sums = in_softmax(24, size) + 65 + function_roundings, .kept = in_softmax(2, size)};
  // Times the rows, so that the table's gradient is as large as what it is added to.
  expect_same_result(loss * rows, oracle::cross_entropy(logits, targets) * rows, forward);
  expect_same_gradient(x, {.sums = forward.sums + 65, .kept = forward.kept + 2});
  expect_same_gradient(table, "table", {.sums = forward.sums + rows, .kept = forward.kept + 2});
}

TEST_P(OpMatchesOracle, HeadLogits) {
  const Input x = input(1, {3, 5, 24});
  const TestWeight table = weight(2, {65, 24});
  const at::Tensor plain = oracle::linear(x.plain, table.plain.t(), {});
  for (const bool decoding : {false, true}) {
    Context ours = context();
    ours.decoding = decoding;
    EXPECT_LT(oracle::error(head_logits(x.ours, table.ours, ours), plain), tolerance({.sums = 24}));
  }
}

TEST_P(OpMatchesOracle, DecodingGivesWhatTheWholeBatchGives) {
  Context ours = context();
  ours.decoding = true;
  const Input x = input(1, {5, 1, 24});
  const TestWeight matrix = weight(2, {24, 100}), shift = weight(3, {100});
  for (const bool bias : {true, false}) {
    const LinearWeights weights{matrix.ours, bias ? shift.ours : Weight{}};
    const at::Tensor plain = oracle::linear(x.plain, matrix.plain, bias ? shift.plain : at::Tensor());
    EXPECT_LT(oracle::error(linear(x.ours, weights, ours), plain), tolerance({.sums = 24 + 1, .kept = 2}));
    for (const GeluForm form : {GeluForm::tanh, GeluForm::exact}) {
      const TestWeight back = weight(4, {100, 24}), back_shift = weight(5, {24});
      const MlpWeights both{weights, {back.ours, bias ? back_shift.ours : Weight{}}};
      const at::Tensor expected = plain_mlp(x.plain, {matrix, shift, back, back_shift}, form, bias);
      EXPECT_LT(oracle::error(mlp(x.ours, both, form, ours), expected),
                tolerance({.sums = 25 + 2 * function_roundings + 101, .kept = 5}));
    }
  }
}

INKLING_ON_EVERY_SETTING(OpMatchesOracle);

}  // namespace
}  // namespace inkling
