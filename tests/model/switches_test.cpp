// Every setting of model: against the reference model in float64, and that against finite differences: each switch
// alone, and many together.
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/model/against_reference.h"
#include "tests/model/every_shape.h"
#include "tests/oracle/tensors.h"
#include "tests/oracle/tolerances.h"

namespace inkling::test {
namespace {

at::Tensor judged_loss(const SmallModel& judge, const Batch& batch, const at::Tensor& positions = {}) {
  return judge.model->loss(batch.tokens, batch.targets, {.positions = positions});
}

// Every element of every weight: (loss(w + h) - loss(w - h)) / 2h.
void expect_finite_differences(const GptShape& shape) {
  SCOPED_TRACE(described(shape));
  const SmallModel judge = judge_of(shape, *make_lively_model(shape).arena);
  const Batch batch = make_batch(shape, 2, 3);
  judged_loss(judge, batch).backward();
  const at::NoGradGuard no_gradients;
  for (const Parameter& parameter : judge.arena->parameters()) {
    const Weight weight = judge.arena->weight(parameter.spec.name);
    double* const values = weight.value.data_ptr<double>();
    const double* const gradient = weight.gradient.data_ptr<double>();
    for (std::int64_t i = 0; i < parameter.count; ++i) {
      const double value = values[i], h = 1e-5;
      values[i] = value + h;
      const double above = judged_loss(judge, batch).item<double>();
      values[i] = value - h;
      const double below = judged_loss(judge, batch).item<double>();
      values[i] = value;
      ASSERT_NEAR(gradient[i], (above - below) / (2.0 * h), 2e-8) << parameter.spec.name << " element " << i;
    }
  }
}

GptShape tiny(GptShape shape) {
  shape.n_layer = 1;
  shape.n_embd = shape.n_embd * 2 / 5;
  shape.block_size = 3;
  shape.vocab_size = 5;
  return shape;
}

TEST(Reference, ASoftcapBoundsTheLogits) {
  GptShape capped = small_shape;
  capped.logit_softcap = 2.5;
  const SmallModel model = make_lively_model(small_shape);
  const SmallModel plain = judge_of(small_shape, *model.arena), bounded = judge_of(capped, *model.arena);
  const at::NoGradGuard no_gradients;
  const at::Tensor tokens = make_batch(small_shape, 2, 9).tokens;
  const at::Tensor expected = plain.model->logits(tokens).div(2.5).tanh().mul(2.5);
  EXPECT_LT(oracle::error(bounded.model->logits(tokens), expected), 1e-12);
}

TEST(Reference, EveryGradientIsTheFiniteDifference) {
  for (const NamedShape& each : single_switches()) expect_finite_differences(tiny(each.shape));
}

// What the documents of a row add to the loss and to every gradient is what each adds that is alone.
TEST(Reference, SeesEachDocumentOfARowAsIfItWereAlone) {
  std::vector<NamedShape> shapes = single_switches();
  for (std::uint64_t seed = 0; seed < 50; ++seed) shapes.push_back({"random", random_shape(seed)});
  constexpr std::int64_t rows = 3, time = 17;
  std::uint64_t seed = 0;
  for (const NamedShape& each : shapes) {
    SCOPED_TRACE(described(each.shape));
    const SmallModel together = judge_of(each.shape, *make_lively_model(each.shape).arena),
                     alone = judge_of(each.shape, *together.arena);
    Batch batch = make_batch(each.shape, rows, time);
    batch.targets = oracle::tokens(2, {rows, time}, each.shape.vocab_size);
    const at::Tensor positions = make_positions(rows, time, ++seed);
    const at::Tensor loss = judged_loss(together, batch, positions);
    loss.backward();
    double sum = 0;
    for (std::int64_t row = 0; row < rows; ++row) {
      const at::Tensor place = positions.select(0, row);
      for (std::int64_t begin = 0, end = 0; begin < time; begin = end) {
        for (end = begin + 1; end < time && place[end].item<std::int64_t>() != 0;) ++end;
        const auto part = [&](const at::Tensor& of) { return of.narrow(0, row, 1).slice(1, begin, end); };
        const at::Tensor share = alone.model->loss(part(batch.tokens), part(batch.targets))
                                     .mul(static_cast<double>(end - begin) / static_cast<double>(rows * time));
        share.backward();
        sum += share.item<double>();
      }
    }
    EXPECT_NEAR(loss.item<double>(), sum, 1e-12);
    for (const Parameter& parameter : alone.arena->parameters()) {
      EXPECT_LT(oracle::error(together.arena->weight(parameter.spec.name).gradient.flatten(),
                              alone.arena->weight(parameter.spec.name).gradient.flatten()),
                1e-10)
          << parameter.spec.name;
    }
  }
}

class Switches : public AgainstReference {};

TEST_P(Switches, EachAloneAgreesWithTheReference) {
  for (const NamedShape& each : single_switches()) {
    SCOPED_TRACE(each.name);
    expect_reference(each.shape);
    if (numbers_are_ours()) expect_reference(each.shape, 0.15);
    expect_reference(each.shape, numbers_are_ours() ? 0.15 : 0.0, 17, make_positions(3, 17));
  }
}

TEST_P(Switches, RandomCombinationsAgreeWithTheReference) {
  const std::uint64_t count = !threads_take_turns() ? 200 : oracle::is_nightly() ? 60 : 20;
  for (std::uint64_t seed = 0; seed < count; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const at::Tensor positions = seed % 3 == 0 ? make_positions(3, 17, seed) : at::Tensor();
    expect_reference(random_shape(seed), seed % 4 == 0 && numbers_are_ours() ? 0.15 : 0.0, 17, positions);
    if (HasFailure()) return;
  }
}

// Longer than what a kernel takes at once.
TEST_P(Switches, LongDocumentsAgreeWithTheReference) {
  GptShape shape = small_shape;
  shape.block_size = 200;
  shape.position = Position::rope;
  shape.conv = 3;
  for (const std::vector<AttentionPattern>& patterns :
       std::vector<std::vector<AttentionPattern>>{{}, {{30, 1}}, {{5, 3}}}) {
    shape.patterns = patterns;
    expect_reference(shape, 0.0, 200, make_positions(3, 200, 1, 150));
  }
}

INKLING_ON_EVERY_SETTING(Switches);
INKLING_ON_ROWS(Declined, Switches, [](const oracle::Setting&) { return true; }, oracle::declining_settings);

// Weights in bfloat16, arithmetic in float32.
class SwitchesOfWeightsAlone : public Switches {};

TEST_P(SwitchesOfWeightsAlone, GenerateAsTheReferenceDoes) {
  std::vector<NamedShape> shapes = single_switches();
  for (std::uint64_t seed = 0; seed < 50; ++seed) shapes.push_back({"random", random_shape(seed)});
  for (const NamedShape& each : shapes) {
    SCOPED_TRACE(described(each.shape));
    const SmallModel model = make_lively_model(each.shape, {.runtime = runtime(), .use = Use::inference});
    const SmallModel judge = judge_of(each.shape, *model.arena);
    expect_generation(each.shape, model, judge, make_batch(each.shape, 3, 17).tokens);
  }
}

INSTANTIATE_TEST_SUITE_P(Inference, SwitchesOfWeightsAlone, testing::ValuesIn(oracle::inference_settings),
                         [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace inkling::test
