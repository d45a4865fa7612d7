// The numbers that introductions to self-attention print, from the operations that the model is made of.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>

#include "backend/cpu_backend.h"
#include "model/operations.h"
#include "tests/oracle/rounding.h"
#include "tests/oracle/tensors.h"

namespace inkling {
namespace {

const std::vector<double> printed_scores = {0.1, 0.4, -0.9, 0.02, 0.35, -0.62};
const std::vector<double> printed_softmax = {0.18, 0.25, 0.07, 0.17, 0.24, 0.09};

// Attention's last token over six keys whose scores are `scores`; the values are the unit vectors, so that what comes
// out are the weights.
at::Tensor attention_weights(const std::vector<double>& scores) {
  const auto n = static_cast<std::int64_t>(scores.size());
  const at::Tensor qkv = at::zeros({1, n, 3 * n}, at::kFloat);
  for (std::int64_t t = 0; t < n; ++t) {
    qkv[0][t][0].fill_(std::sqrt(static_cast<double>(n)));
    qkv[0][t][n].fill_(scores[static_cast<std::size_t>(t)]);
    qkv[0][t][2 * n + t].fill_(1.0);
  }
  Pass pass{.backend = cpu_backend()};
  return attention(qkv, {1, 1, n}, pass)[0][n - 1];
}

TEST(Textbook, SoftmaxOfSixScoresInAttention) {
  const at::Tensor weights = attention_weights(printed_scores);
  for (std::size_t i = 0; i < printed_softmax.size(); ++i) {
    EXPECT_NEAR(weights[static_cast<std::int64_t>(i)].item<double>(), printed_softmax[i],
                0.005);  // printed to two places
  }
}

TEST(Textbook, AHundredTimesTheScoresIsNearlyOneHot) {
  std::vector<double> scores = printed_scores;
  for (double& score : scores) score *= 100.0;
  const double error = oracle::rounding_error(oracle::in_softmax(6, 90.0) + 6 + oracle::function_roundings);
  const at::Tensor weights = attention_weights(scores);
  EXPECT_NEAR(weights[1].item<double>(), 1.0 / (1.0 + std::exp(-5.0)), error);  // 0.9933: the next score is 5 below
  EXPECT_NEAR(weights[4].item<double>(), 1.0 - 1.0 / (1.0 + std::exp(-5.0)), error);
  EXPECT_LT(weights[0].item<double>(), 1e-9);
}

// One row, the identity as the table: the logits are x itself, and the gradient of -log p_target is p - onehot.
TEST(Textbook, SoftmaxGradientIsPiTimesDeltaMinusPj) {
  const at::Tensor p = at::softmax(at::tensor(printed_scores, at::kDouble), -1);
  for (std::int64_t i = 0; i < 6; ++i) {
    const at::Tensor x = at::tensor(printed_scores, at::kFloat).view({1, 6}).set_requires_grad(true);
    const Weight table{at::zeros({6, 6}).fill_diagonal_(1.0).set_requires_grad(true), at::zeros({6, 6})};
    const at::Tensor loss = head_loss(x, table, at::zeros({1}, at::kLong).fill_(i), 0.0, {.backend = cpu_backend()});
    loss.backward();
    const auto p_i = p[i].item<double>();
    const double error = oracle::rounding_error(6 + 6 + 2 * oracle::function_roundings);
    EXPECT_NEAR(std::exp(-loss.item<double>()), p_i, error);
    for (std::int64_t j = 0; j < 6; ++j) {
      const auto p_j = p[j].item<double>();
      const double derivative_of_p_i = -p_i * x.grad()[0][j].item<double>();  // d p = -p d(-log p)
      EXPECT_NEAR(derivative_of_p_i, p_i * ((i == j ? 1.0 : 0.0) - p_j), error);
    }
  }
}

TEST(Textbook, VarianceOfQueryTimesKeyIsTheHeadSizeAndOneAfterScaling) {
  for (const std::int64_t d : {16, 64}) {
    const std::int64_t n = 40000;
    const at::Tensor products = (oracle::normal(1, {n, d}) * oracle::normal(2, {n, d})).sum(-1);
    const auto variance = products.var().item<double>();
    EXPECT_NEAR(variance / static_cast<double>(d), 1.0, 0.04);
    EXPECT_NEAR((products / std::sqrt(static_cast<double>(d))).var().item<double>(), 1.0, 0.04);
  }
}

// The scores that attention() takes the softmax of have variance 1: with the value 1 at one key and 0 at the
// others, log of the ratio of two weights is the difference of two scores, whose variance is 2.
TEST(Textbook, AttentionScoresHaveVarianceOne) {
  const std::int64_t batch = 6000, d = 16;
  const at::Tensor qkv = oracle::normal(3, {batch, 2, 3 * d}).to(at::kFloat);
  qkv.slice(2, 2 * d).zero_();
  qkv.select(1, 0).select(1, 2 * d).fill_(1.0);
  Pass pass{.backend = cpu_backend()};
  const at::Tensor weight = attention(qkv, {1, 1, d}, pass).select(1, 1).select(1, 0).to(at::kDouble);
  EXPECT_NEAR((weight / (1.0 - weight)).log().var().item<double>(), 2.0, 0.12);
}

TEST(Textbook, ShapesForBatchSixTimeEightChannelsThirtyTwoHeadSixteen) {
  Pass pass{.backend = cpu_backend()};
  const at::Tensor out = attention(oracle::normal(1, {6, 8, 3 * 32}).to(at::kFloat), {2, 2, 16}, pass);
  EXPECT_EQ(out.sizes(), at::IntArrayRef({6, 8, 32}));
}

// A head of two channels turns by its position alone: at position t the query (1, 0) becomes (cos t, sin t), and the
// key (0, 1) becomes (-sin t, cos t). Of four channels, the pairs are (0, 2) and (1, 3), the second at a hundredth of
// the angle with theta = 10,000.
TEST(Textbook, RotaryPositionsTurnPairsCounterclockwise) {
  const AttentionForm form = {.n_head = 1, .n_kv_head = 1, .head_size = 2};
  const at::Tensor qkv = at::zeros({1, 4, 6}, at::kFloat);
  qkv.select(2, 0).fill_(1.0);
  qkv.select(2, 3).fill_(1.0);
  qkv.select(2, 4).fill_(5.0);
  const at::Tensor positions = at::arange(4, at::kLong);
  const at::Tensor turned = cpu_backend().rotate(qkv, form, rotation_of(positions, 2, 10'000), false);
  for (std::int64_t t = 0; t < 4; ++t) {
    const double angle = static_cast<double>(t);
    const double expected[] = {std::cos(angle), std::sin(angle), -std::sin(angle), std::cos(angle), 5.0, 0.0};
    for (std::int64_t i = 0; i < 6; ++i)
      EXPECT_NEAR(turned[0][t][i].item<double>(), expected[i], 1e-6) << t << " " << i;
  }
  const Rotation four = rotation_of(positions, 4, 10'000);
  EXPECT_NEAR(four.sines[3][0].item<double>(), std::sin(3.0), 1e-6);
  EXPECT_NEAR(four.sines[3][1].item<double>(), std::sin(0.03), 1e-6);
  const at::Tensor unit = at::zeros({1, 4, 12}, at::kFloat);
  unit.select(2, 0).fill_(1.0);
  const at::Tensor wide = cpu_backend().rotate(unit, {1, 1, 4}, four, false);
  EXPECT_NEAR(wide[0][3][2].item<double>(), std::sin(3.0), 1e-6);
  EXPECT_EQ(wide[0][3][1].item<double>(), 0.0);
}

// The first half of what c_fc makes are gates.
TEST(Textbook, SwigluIsTheSiluOfTheGateTimesTheValue) {
  const Weight c_fc = {.value = at::tensor({2.0f, 3.0f}).view({1, 2})},
               c_proj = {.value = at::ones({1, 1}, at::kFloat)};
  const MlpWeights weights = {.c_fc = {c_fc, {}}, .c_proj = {c_proj, {}}, .activation = Activation::swiglu};
  const double out = cpu_backend().mlp(at::ones({1, 1}, at::kFloat), weights, false).out.item<double>();
  EXPECT_NEAR(out, 2.0 / (1.0 + std::exp(-2.0)) * 3.0, 1e-6);
}

// Query heads 0 and 1 read the first key and value, 2 and 3 the second: a single token attends to itself alone.
TEST(Textbook, QueriesShareKeysInGroupsOfNeighbours) {
  const at::Tensor qkv = at::tensor({1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 7.0f, 9.0f}).view({1, 1, 8});
  Pass pass{.backend = cpu_backend()};
  const at::Tensor out = attention(qkv, {.n_head = 4, .n_kv_head = 2, .head_size = 1}, pass);
  EXPECT_TRUE(oracle::identical(out.flatten(), at::tensor({7.0f, 7.0f, 9.0f, 9.0f})));
}

}  // namespace
}  // namespace inkling
