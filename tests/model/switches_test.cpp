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

#include "base/random.h"
#include "tests/model/against_reference.h"
#include "tests/oracle/tensors.h"
#include "tests/oracle/tolerances.h"

namespace inkling::test {
namespace {

struct NamedShape {
  std::string name;
  GptShape shape;
};

// The small GPT-2 with one thing changed.
std::vector<NamedShape> single_switches() {
  std::vector<NamedShape> all;
  const auto add = [&](const std::string& name, auto&& change) {
    all.push_back({name, small_shape});
    change(all.back().shape);
  };
  add("tie_embeddings", [](GptShape& s) { s.tie_embeddings = false; });
  add("logit_softcap", [](GptShape& s) { s.logit_softcap = 3.0; });
  add("qk_norm", [](GptShape& s) { s.qk_norm = true; });
  add("n_kv_head", [](GptShape& s) { s.n_kv_head = 1; });
  add("head_size", [](GptShape& s) { s.head_size = 7; });
  add("position: rope", [](GptShape& s) { s.position = Position::rope; });
  add("rope_theta", [](GptShape& s) {
    s.position = Position::rope;
    s.rope_theta = 7.5;
  });
  add("position: none", [](GptShape& s) { s.position = Position::none; });
  add("norm: rmsnorm", [](GptShape& s) { s.norm = NormKind::rmsnorm; });
  add("norm_epsilon", [](GptShape& s) { s.norm_epsilon = 0.1; });
  add("n_inner", [](GptShape& s) { s.n_inner = 35; });
  add("activation: gelu", [](GptShape& s) { s.activation = Activation::gelu; });
  add("activation: relu", [](GptShape& s) { s.activation = Activation::relu; });
  add("activation: relu_squared", [](GptShape& s) { s.activation = Activation::relu_squared; });
  add("activation: swiglu", [](GptShape& s) { s.activation = Activation::swiglu; });
  add("activation: geglu", [](GptShape& s) { s.activation = Activation::geglu; });
  add("attention: local 1", [](GptShape& s) { s.patterns = {{1, 1}}; });
  add("attention: local 2", [](GptShape& s) { s.patterns = {{2, 1}}; });
  add("attention: dilated 2 2", [](GptShape& s) { s.patterns = {{2, 2}}; });
  add("attention: dilated 3 30", [](GptShape& s) { s.patterns = {{3, 30}}; });
  add("attention: [full, local 6]", [](GptShape& s) { s.patterns = {{}, {6, 1}}; });
  return all;
}

// A draw for each switch, from (seed, how many have been drawn).
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : key_(mix64(seed + golden_gamma)) {}

  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(random_below(key_, place_++, static_cast<std::uint64_t>(n)));
  }
  bool coin() { return below(2) == 1; }
  template <class Enum>
  Enum any() {
    return static_cast<Enum>(below(static_cast<std::int64_t>(words_of<Enum>.size())));
  }

 private:
  std::uint64_t key_, place_ = 0;
};

GptShape random_shape(std::uint64_t seed) {
  Draws draw(seed);
  GptShape shape = {.n_layer = 1 + draw.below(2), .block_size = 20, .vocab_size = 30 + draw.below(20)};
  shape.n_head = 1 + draw.below(4);
  if (draw.coin()) shape.n_kv_head = shape.n_head % 2 == 0 && draw.coin() ? shape.n_head / 2 : 1;
  shape.n_embd = shape.n_head * 2 * (3 + draw.below(3));
  if (draw.coin()) shape.head_size = 2 * (2 + draw.below(8));  // norms magnify the errors of tiny heads
  shape.bias = draw.coin();
  shape.qk_norm = draw.coin();
  if (draw.coin()) shape.logit_softcap = 2.0 + static_cast<double>(draw.below(30));
  shape.tie_embeddings = draw.coin();
  if (draw.coin()) shape.n_inner = 1 + draw.below(70);
  shape.activation = draw.any<Activation>();
  shape.position = draw.any<Position>();
  if (draw.coin()) shape.rope_theta = 100;
  shape.norm = draw.any<NormKind>();
  shape.norm_epsilon = draw.coin() ? 1e-5 : 1e-2;
  for (std::int64_t i = draw.below(4); i > 0; --i) {
    shape.patterns.push_back(draw.below(3) == 0 ? AttentionPattern{}
                                                : AttentionPattern{2 + draw.below(9), 1 + draw.below(4)});
  }
  return shape;
}

double judged_loss(const SmallModel& judge, const Batch& batch) {
  return judge.model->loss(batch.tokens, batch.targets).item<double>();
}

// Every element of every weight: (loss(w + h) - loss(w - h)) / 2h.
void expect_finite_differences(const GptShape& shape) {
  SCOPED_TRACE(described(shape));
  const SmallModel judge = judge_of(shape, *make_lively_model(shape).arena);
  const Batch batch = make_batch(shape, 2, 3);
  judge.model->loss(batch.tokens, batch.targets).backward();
  const at::NoGradGuard no_gradients;
  for (const Parameter& parameter : judge.arena->parameters()) {
    const Weight weight = judge.arena->weight(parameter.spec.name);
    double* const values = weight.value.data_ptr<double>();
    const double* const gradient = weight.gradient.data_ptr<double>();
    for (std::int64_t i = 0; i < parameter.count; ++i) {
      const double value = values[i], h = 1e-5;
      values[i] = value + h;
      const double above = judged_loss(judge, batch);
      values[i] = value - h;
      const double below = judged_loss(judge, batch);
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

class Switches : public AgainstReference {};

TEST_P(Switches, EachAloneAgreesWithTheReference) {
  for (const NamedShape& each : single_switches()) {
    SCOPED_TRACE(each.name);
    expect_reference(each.shape);
    if (numbers_are_ours()) expect_reference(each.shape, 0.15);
  }
}

TEST_P(Switches, RandomCombinationsAgreeWithTheReference) {
  const std::uint64_t count = setting().gpu == oracle::Setting::real ? 200 : 60;  // fibers take their time
  for (std::uint64_t seed = 0; seed < count; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    expect_reference(random_shape(seed), seed % 4 == 0 && numbers_are_ours() ? 0.15 : 0.0);
    if (HasFailure()) return;
  }
}

INKLING_ON_EVERY_SETTING(Switches);

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
