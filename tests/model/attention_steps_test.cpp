// What is shown of attention is what the model computes: its logits are the fused model's, and each step follows from
// the one before, for every setting of model.
#include "model/attention_steps.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/TensorAccessor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/softmax.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/model/against_reference.h"
#include "tests/model/every_shape.h"
#include "tests/oracle/tensors.h"

namespace inkling::test {
namespace {

constexpr std::int64_t watched_time = 17;
constexpr double double_roundoff = 0x1p-53;

std::vector<NamedShape> every_shape() {
  std::vector<NamedShape> shapes = single_switches();
  shapes.push_back({"modern", modern_shape});
  for (std::uint64_t seed = 0; seed < 30; ++seed)
    shapes.push_back({"seed " + std::to_string(seed), random_shape(seed)});
  return shapes;
}

struct Watched {
  std::vector<std::pair<std::int64_t, std::int64_t>> order;  // layer and head, as they were shown
  std::vector<AttentionSteps> steps;
  at::Tensor logits;

  const AttentionSteps& of(std::int64_t layer, std::int64_t head, const GptShape& shape) const {
    return steps[static_cast<std::size_t>(layer * shape.n_head + head)];
  }
};

Watched watch(const GptShape& shape, const ParameterArena& arena, const at::Tensor& tokens) {
  const at::NoGradGuard no_gradients;
  Watched watched;
  watched.logits =
      watched_logits(shape, arena, tokens, [&](std::int64_t layer, std::int64_t head, const AttentionSteps& steps) {
        watched.order.emplace_back(layer, head);
        watched.steps.push_back(steps);
      });
  return watched;
}

// In float64, for which the steps' own roundings are small beside any mistake.
Watched watch_exactly(const GptShape& shape) {
  const SmallModel judge = judge_of(shape, *make_lively_model(shape).arena);
  return watch(shape, *judge.arena, make_batch(shape, 2, watched_time).tokens);
}

// Whether token i may look at token j, as docs/formats.md defines it.
bool is_visible(const AttentionPattern& pattern, std::int64_t i, std::int64_t j) {
  if (j > i) return false;
  if (pattern.is_full()) return true;
  return (i - j) % pattern.dilation == 0 && i - j <= (pattern.window - 1) * pattern.dilation;
}

// Of ALiBi, as its authors publish them for 1 to 4 heads: a score falls by this at each step back.
double slope_of(const GptShape& shape, std::int64_t head) {
  static const std::vector<std::vector<double>> published = {
      {1.0 / 256}, {1.0 / 16, 1.0 / 256}, {1.0 / 16, 1.0 / 256, 1.0 / 4}, {1.0 / 4, 1.0 / 16, 1.0 / 64, 1.0 / 256}};
  if (shape.position != Position::alibi) return 0.0;
  return published[static_cast<std::size_t>(shape.n_head - 1)][static_cast<std::size_t>(head)];
}

// Both compute in float32, in another order.
TEST(AttentionSteps, LeadToTheLogitsOfTheFusedModel) {
  for (const NamedShape& each : every_shape()) {
    SCOPED_TRACE(each.name);
    const SmallModel model = make_lively_model(each.shape, {.runtime = {.threads = 1}, .use = Use::inference});
    const at::NoGradGuard no_gradients;
    const at::Tensor tokens = make_batch(each.shape, 3, watched_time).tokens;
    const Watched watched = watch(each.shape, *model.arena, tokens);
    EXPECT_LT(oracle::error(watched.logits, model.model->logits(tokens)), logits_difference(each.shape, watched_time));
  }
}

TEST(AttentionSteps, AreShownOnceForEachHeadInOrder) {
  const Watched watched = watch_exactly(modern_shape);
  std::vector<std::pair<std::int64_t, std::int64_t>> order;
  for (std::int64_t layer = 0; layer < modern_shape.n_layer; ++layer) {
    for (std::int64_t head = 0; head < modern_shape.n_head; ++head) order.emplace_back(layer, head);
  }
  EXPECT_EQ(watched.order, order);
}

TEST(AttentionSteps, ScoresAreQueriesTimesKeysWhereATokenMayLookLessTheSlopeTimesTheDistance) {
  for (const NamedShape& each : every_shape()) {
    SCOPED_TRACE(each.name);
    const Watched watched = watch_exactly(each.shape);
    for (std::size_t n = 0; n < watched.steps.size(); ++n) {
      const AttentionSteps& steps = watched.steps[n];
      const std::int64_t channels = steps.queries.size(3);
      const double slope = slope_of(each.shape, watched.order[n].second);
      const AttentionPattern pattern = each.shape.attention(static_cast<std::size_t>(watched.order[n].first)).pattern;
      ASSERT_EQ(steps.scores.sizes(), (std::vector<std::int64_t>{2, 1, watched_time, watched_time}));
      const auto q = steps.queries.accessor<double, 4>(), k = steps.keys.accessor<double, 4>(),
                 scores = steps.scores.accessor<double, 4>(), weights = steps.weights.accessor<double, 4>();
      for (std::int64_t i = 0; i < watched_time; ++i) {
        for (std::int64_t j = 0; j < watched_time; ++j) {
          const double fall = slope * static_cast<double>(i - j);
          double product = 0, size = fall;
          for (std::int64_t c = 0; c < channels; ++c) {
            product += q[1][0][i][c] * k[1][0][j][c];
            size += std::abs(q[1][0][i][c] * k[1][0][j][c]);
          }
          const double root = std::sqrt(static_cast<double>(channels));
          const bool visible = is_visible(pattern, i, j);
          ASSERT_EQ(std::isfinite(scores[1][0][i][j]), visible) << i << " to " << j;
          ASSERT_EQ(weights[1][0][i][j] > 0, visible) << i << " to " << j;
          if (!visible) continue;
          ASSERT_NEAR(scores[1][0][i][j], product / root - fall,
                      static_cast<double>(channels + 3) * double_roundoff * size);
        }
      }
    }
  }
}

TEST(AttentionSteps, WeightsAreTheSoftmaxOfScoresAndSumsTheWeightedMeansOfValues) {
  for (const NamedShape& each : every_shape()) {
    SCOPED_TRACE(each.name);
    const double allowed = oracle::rounding_error(watched_time + 2 * oracle::function_roundings, double_roundoff);
    for (const AttentionSteps& steps : watch_exactly(each.shape).steps) {
      const at::Tensor exponentials = (steps.scores - steps.scores.amax(-1, true)).exp();
      EXPECT_LT(oracle::error(steps.weights, exponentials / exponentials.sum(-1, true)), allowed);
      const at::Tensor ones = at::ones({2, 1, watched_time, 1}, at::kDouble);
      EXPECT_LT(oracle::error(steps.weights.sum(-1, true), ones), allowed);
      // A mean of values of either sign can be smaller than they are, so its error is judged by their size.
      const double error = (steps.sums - at::matmul(steps.weights, steps.values)).abs().max().item<double>();
      EXPECT_LT(error, allowed * steps.values.abs().max().item<double>());
    }
  }
}

TEST(AttentionSteps, HeadsOfAGroupShareKeysAndValuesAndOthersDoNot) {
  for (const NamedShape& each : every_shape()) {
    SCOPED_TRACE(each.name);
    const Watched watched = watch_exactly(each.shape);
    const std::int64_t group = each.shape.attention().group();
    for (std::int64_t head = 1; head < each.shape.n_head; ++head) {
      const AttentionSteps &before = watched.of(0, head - 1, each.shape), &here = watched.of(0, head, each.shape);
      EXPECT_EQ(oracle::identical(before.keys, here.keys), head % group != 0) << head;
      EXPECT_EQ(oracle::identical(before.values, here.values), head % group != 0) << head;
      EXPECT_FALSE(oracle::identical(before.queries, here.queries)) << head;
    }
  }
}

}  // namespace
}  // namespace inkling::test
