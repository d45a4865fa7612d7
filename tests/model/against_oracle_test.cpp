// Every operation, forward and backward, against the oracle in float64, on every backend. How far a result may be off
// is counted from the operation: the sums on the way to it, and the tensors that are kept on the way.
#include <ATen/TensorOperators.h>
#include <ATen/ops/full_like.h>

#include <array>
#include <tuple>

#include "model/operations.h"
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
    const at::Tensor gradient =
        at::full_like(ours, TestWeight::gradient_before, ours.options().dtype(at::kFloat)).detach();
    return {{ours, gradient}, plain};
  }

  // weights: the matrix and bias of either layer.
  static at::Tensor plain_mlp(const at::Tensor& x, const std::array<TestWeight, 4>& weights, Activation activation,
                              bool bias) {
    const auto shift = [&](std::size_t i) { return bias ? weights[i].plain : at::Tensor(); };
    const at::Tensor wide = oracle::gelu(oracle::linear(x, weights[0].plain, shift(1)), activation == Activation::gelu);
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
  expect_same_result(embedding(tokens.to(options().device()), {table.ours, positions.ours}, pass()),
                     oracle::embedding(tokens, table.plain, positions.plain), {.sums = 2});
  expect_same_gradient(table, "token table", {.sums = 36});
  expect_same_gradient(positions, "position table", {.sums = 36});
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
    expect_same_result(norm(x.ours, weights, pass()),
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
    const auto [sum, normed] = add_norm(x.ours, branch.ours, {scale.ours, shift.ours}, pass());
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
    expect_same_result(linear(x.ours, weights, pass()),
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
  for (const auto& [form, bias, recompute] : {std::tuple(Activation::gelu_tanh, true, Recompute::none),
                                              {Activation::gelu_tanh, false, Recompute::gelu},
                                              {Activation::gelu, true, Recompute::gelu},
                                              {Activation::gelu, false, Recompute::none}}) {
    const Input x = input(1, {3, 17, 24});
    const TestWeight in = weight(2, {24, 40}), in_shift = weight(3, {40}), out = weight(4, {40, 24}),
                     out_shift = weight(5, {24});
    const MlpWeights weights{
        {in.ours, bias ? in_shift.ours : Weight{}}, {out.ours, bias ? out_shift.ours : Weight{}}, form};
    Pass ours = pass();
    ours.training.recompute = recompute;
    expect_same_result(mlp(x.ours, weights, ours), plain_mlp(x.plain, {in, in_shift, out, out_shift}, form, bias),
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
  for (const auto& [time, form] : {std::pair<std::int64_t, AttentionForm>{1, {3, 3, 8}},
                                   {7, {3, 3, 5}},
                                   {70, {3, 3, 16}},
                                   {70, {4, 2, 5}},
                                   {7, {4, 1, 8}},
                                   {70, {3, 3, 16, {1, 1}}},
                                   {70, {4, 2, 5, {20, 1}}},
                                   {70, {4, 2, 8, {9, 4}}},
                                   {7, {2, 2, 8, {2, 30}}}}) {
    const std::int64_t head_size = form.head_size;
    const Input qkv = input(1, {2, time, form.packed()});
    Pass ours = pass();
    oracle::Dropout none;
    // Scores have the standard deviation 1. LibTorch may keep them and the probabilities.
    const auto scores = in_softmax(static_cast<double>(head_size), 2.0);
    const Roundings forward = {.sums = scores + static_cast<double>(time) + function_roundings,
                               .kept = in_softmax(1, 2.0) + 2};
    expect_same_result(attention(qkv.ours, form, ours), oracle::causal_attention(qkv.plain, form, none), forward);
    const auto more = static_cast<double>(form.group() * time +
                                          head_size);  // the probabilities' gradient, and a sum over the queries
    expect_same_gradient(qkv, {.sums = 2 * forward.sums + more, .kept = 2 * forward.kept});
  }
}

TEST_P(OpMatchesOracle, HeadLoss) {
  const Input x = input(1, {3, 17, 24});
  const TestWeight table = weight(2, {65, 24}, 0.2);  // logits of standard deviation 1
  at::Tensor targets = oracle::tokens(3, {3, 17}, 65);
  targets.slice(1, 5, 9).fill_(not_scored);
  const at::Tensor logits = oracle::linear(x.plain, table.plain.t(), {});
  const at::Tensor loss = head_loss(x.ours, table.ours, targets.to(options().device()), 0.0, pass());
  EXPECT_EQ(loss.scalar_type(), at::kFloat);
  // The logits, and the logarithms of probabilities that LibTorch makes of them: as large as their mean.
  const auto size = oracle::cross_entropy(logits, targets).item<double>();
  const Roundings forward = {.sums = in_softmax(24, size) + 65 + function_roundings, .kept = in_softmax(2, size)};
  // Times the rows, so that the table's gradient is as large as what it is added to.
  expect_same_result(loss * rows, oracle::cross_entropy(logits, targets) * rows, forward);
  expect_same_gradient(x, {.sums = forward.sums + 65, .kept = forward.kept + 2});
  expect_same_gradient(table, "table", {.sums = forward.sums + rows, .kept = forward.kept + 2});
}

TEST_P(OpMatchesOracle, Logits) {
  const Input x = input(1, {3, 5, 24});
  const TestWeight table = weight(2, {65, 24});
  const at::Tensor plain = oracle::linear(x.plain, table.plain.t(), {});
  EXPECT_LT(oracle::error(backend().logits(x.ours, table.ours), plain), tolerance({.sums = 24}));
  const at::Tensor decoded = backend().decode_logits(x.ours.flatten(0, 1), table.ours);
  EXPECT_LT(oracle::error(decoded, plain.flatten(0, 1)), tolerance({.sums = 24}));
}

// Whoever comes first in a step overwrites what the step before has left, and everyone else adds.
TEST_P(OpMatchesOracle, TheFirstToWriteAGradientOverwritesItAndLaterOnesAdd) {
  const Input x = input(1, {3, 5, 24});
  TestWeight table = weight(2, {65, 24}), positions = weight(3, {5, 24}), matrix = weight(4, {24, 24});
  const at::Tensor tokens = oracle::tokens(5, {3, 5}, 65), targets = oracle::tokens(6, {3, 5}, 65);
  const auto everyone = [&](bool head_first) {
    bool fresh[] = {true, true, true};
    int number = 0;
    for (TestWeight* const weight : {&table, &positions, &matrix}) {
      weight->ours.gradient.fill_(NAN);
      weight->ours.is_fresh = &fresh[number++];
    }
    const auto head = [&] { head_loss(x.ours, table.ours, targets.to(options().device()), 0.0, pass()).backward(); };
    if (head_first) head();
    embedding(tokens.to(options().device()), {table.ours, positions.ours}, pass()).sum().backward();
    if (!head_first) head();
    for (int twice = 0; twice < 2; ++twice) linear(x.ours, {matrix.ours, {}}, pass()).sum().backward();
    for (const bool still : fresh) EXPECT_FALSE(still);
    return std::array{table.ours.gradient.clone(), positions.ours.gradient.clone(), matrix.ours.gradient.clone()};
  };
  const auto one = everyone(true), other = everyone(false);
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_LT(oracle::error(one[i], other[i]), oracle::rounding_error(2 * 15)) << i;  // only the order of sums differs
  }
  EXPECT_TRUE(one[1].eq(3.0).all().item<bool>());  // each position three times
  const at::Tensor twice = x.plain.detach().flatten(0, 1).sum(0).mul(2.0).unsqueeze(1).expand({24, 24});
  EXPECT_LT((one[2].cpu().to(at::kDouble) - twice).abs().max().item<double>(), oracle::sum_error(2 * 15));
}

INKLING_ON_SETTINGS_WHERE(OpMatchesOracle, oracle::is_fused);

}  // namespace
}  // namespace inkling
