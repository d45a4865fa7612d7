// Size, names, initialisation, and that the model learns.
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/error.h"
#include "tests/model/small_model.h"
#include "tests/oracle/tensors.h"

namespace inkling::test {
namespace {

TEST(Gpt, TheSmallGpt2Has124439808Parameters) {
  const auto count = [](const GptShape& shape) { return ParameterLayout(gpt_parameters(shape)).parameter_count(); };
  GptShape shape = {.n_layer = 12, .n_head = 12, .n_embd = 768, .block_size = 1024, .vocab_size = 50257};
  EXPECT_EQ(count(shape), 124439808);
  EXPECT_EQ(count({.n_layer = 24, .n_head = 16, .n_embd = 1024, .block_size = 1024, .vocab_size = 50257}),
            354823168);  // GPT-2 medium
  shape.bias = Bias::none;
  EXPECT_EQ(count(shape), 124439808 - (12 * (3 + 1 + 4 + 1 + 2) + 1) * 768);
}

TEST(ParameterLayout, AGroupIsOneRangeAndEachParameterBeginsAtAMultipleOf64Bytes) {
  const ParameterLayout layout(gpt_parameters(small_shape));
  std::int64_t end = 0;
  std::set<std::string> names;
  for (const Parameter& parameter : layout.parameters()) {
    const bool is_vector = parameter.spec.group == ParameterGroup::vector;
    EXPECT_EQ(is_vector, parameter.spec.shape.size() == 1) << parameter.spec.name;
    const auto [first, last] = layout.range(parameter.spec.group);
    EXPECT_GE(parameter.offset, first) << parameter.spec.name;
    EXPECT_LE(parameter.offset + parameter.count, last) << parameter.spec.name;
    EXPECT_EQ(parameter.offset % 16, 0);
    EXPECT_GE(parameter.offset, end);
    end = parameter.offset + parameter.count;
    EXPECT_TRUE(names.insert(parameter.spec.name).second);
  }
  EXPECT_LE(end, layout.size());
  EXPECT_THROW(layout.parameter("h.2.ln_1.weight"), Error);
}

TEST(Initialization, FollowsGpt2AndIsTheSameForTheSameSeed) {
  GptShape shape = {.n_layer = 2, .n_head = 4, .n_embd = 64, .block_size = 64, .vocab_size = 256};
  const SmallModel model = make_small_model(shape), again = make_small_model(shape),
                   other = make_small_model(shape, {.seed = 2});
  EXPECT_TRUE(oracle::identical(model.arena->values(), again.arena->values()));
  std::set<float> first_elements;
  for (const Parameter& parameter : model.arena->parameters()) {
    const std::string& name = parameter.spec.name;
    const at::Tensor value = model.arena->master(name);
    if (parameter.spec.group == ParameterGroup::vector) {
      EXPECT_TRUE(value.eq(name.ends_with(".bias") ? 0.0 : 1.0).all().item<bool>()) << name;
      continue;
    }
    EXPECT_FALSE(oracle::identical(value, other.arena->master(name))) << name;
    EXPECT_TRUE(first_elements.insert(value.flatten()[0].item<float>()).second) << name << " repeats another's numbers";
    const double deviation = name.ends_with("c_proj.weight") ? 0.02 / std::sqrt(4.0) : 0.02;
    const auto n = static_cast<double>(parameter.count);
    EXPECT_NEAR(value.mean().item<double>() / deviation, 0.0, 4.5 / std::sqrt(n)) << name;
    EXPECT_NEAR(value.to(at::kDouble).std().item<double>() / deviation, 1.0, 4.5 / std::sqrt(2.0 * n)) << name;
  }
}

void expect_no_output(Initialization initialization) {
  GptShape shape = modern_shape;
  shape.n_embd = 64;
  shape.norm_weights = true;
  const SmallModel model = make_small_model(shape);
  initialize(*model.arena, shape, 1, initialization);
  for (const Parameter& parameter : model.arena->parameters()) {
    const std::string& name = parameter.spec.name;
    const at::Tensor value = model.arena->master(name).to(at::kDouble);
    const bool is_norm = parameter.spec.shape.size() == 1, is_conv = name.find("conv") != std::string::npos;
    const bool is_zero = name.ends_with("c_proj.weight") || name.ends_with("bias") || name == "lm_head.weight" ||
                         (is_conv && initialization == Initialization::zero_output);
    if (is_zero || is_norm) {
      EXPECT_TRUE(value.eq(is_zero ? 0.0 : 1.0).all().item<bool>()) << name;
      continue;
    }
    const bool is_wide = name.ends_with("c_fc.weight") && initialization == Initialization::short_run;
    const double deviation = name == "wte.weight" ? 1.0 : is_conv ? 0.5 : (is_wide ? 1.0 : 0.5) / 8.0;
    EXPECT_NEAR(value.std().item<double>() / deviation, 1.0, 4.5 / std::sqrt(2.0 * static_cast<double>(value.numel())))
        << name;
  }
  const at::NoGradGuard no_gradients;
  const Batch batch = make_batch(shape, 3, 20);
  EXPECT_NEAR(model.model->loss(batch.tokens, batch.targets).item<double>(), std::log(41.0), 1e-6);
}

TEST(Initialization, ZeroOutputGivesEveryTokenTheSameProbability) {
  expect_no_output(Initialization::zero_output);
  expect_no_output(Initialization::short_run);
}

// Behind the last norm a position is a vector x with |x|^2 = C, and a row w of the head has elements N(0, 0.02): the
// logits are N(0, s^2) with s^2 = 0.0004 C, so that the expected loss is ln V + s^2 / 2. (Tied, the head knows the
// position's own token: its logit is near 0.02 C / sqrt(2), one term of V.) Over 4,096 targets that are drawn at
// random the mean is off by s / 64 at one standard deviation.
TEST(Initialization, LossBeforeTrainingIsNearTheLogarithmOfTheVocabulary) {
  const at::NoGradGuard no_gradients;
  const GptShape shape = {.n_layer = 2, .n_head = 4, .n_embd = 128, .block_size = 64, .vocab_size = 1000};
  const double c = 128.0, v = 1000.0, variance = 0.0004 * c;
  const double own = (std::exp(0.02 * c / std::sqrt(2.0)) - 1.0) / v;
  for (const std::uint64_t seed : {1, 2}) {
    const SmallModel model = make_small_model(shape, {.seed = seed});
    const auto loss =
        model.model->loss(oracle::tokens(10 + seed, {64, 64}, 1000), oracle::tokens(20 + seed, {64, 64}, 1000))
            .item<double>();
    EXPECT_NEAR(loss, std::log(v) + variance / 2.0 + own, 4.0 * std::sqrt(variance) / 64.0);
  }
}

}  // namespace
}  // namespace inkling::test
