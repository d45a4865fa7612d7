// The oracle itself is judged by finite differences, and the model by the oracle.
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>

#include "model/gpt.h"
#include "ops/cross_entropy.h"
#include "ops/dropout.h"
#include "tests/model/small_model.h"
#include "tests/oracle/tensors.h"
#include "tests/oracle/tolerances.h"

namespace inkling::test {
namespace {

struct Batch {
  at::Tensor tokens, targets;
};

Batch make_batch(const GptShape& shape, std::int64_t rows, std::int64_t time) {
  Batch batch{oracle::tokens(1, {rows, time}, shape.vocab_size), oracle::tokens(2, {rows, time}, shape.vocab_size)};
  batch.targets.select(0, rows - 1).slice(0, time / 2).fill_(not_scored);
  return batch;
}

// Every element of every weight: (loss(w + h) - loss(w - h)) / 2h in float64.
TEST(Oracle, EveryGradientIsTheFiniteDifference) {
  at::set_num_threads(1);
  for (const GeluForm gelu : {GeluForm::tanh, GeluForm::exact}) {
    const GptShape shape = {.n_layer = 1, .n_head = 2, .n_embd = 4, .block_size = 3, .vocab_size = 5, .gelu = gelu};
    oracle::Weights weights = oracle_weights(*make_lively_model(shape).arena);
    const oracle::Gpt gpt = oracle_gpt(shape);
    const Batch batch = make_batch(shape, 2, 3);
    gpt.loss(weights, batch.tokens, batch.targets).backward();
    const at::NoGradGuard no_gradients;
    for (auto& [name, weight] : weights) {
      double* const values = weight.data_ptr<double>();
      const double* const gradient = weight.grad().data_ptr<double>();
      for (std::int64_t i = 0; i < weight.numel(); ++i) {
        const double value = values[i], h = 1e-5;
        values[i] = value + h;
        const auto above = gpt.loss(weights, batch.tokens, batch.targets).item<double>();
        values[i] = value - h;
        const auto below = gpt.loss(weights, batch.tokens, batch.targets).item<double>();
        values[i] = value;
        ASSERT_NEAR(gradient[i], (above - below) / (2.0 * h), 1e-8) << name << " element " << i;
      }
    }
  }
}

class ModelMatchesOracle : public oracle::OnEverySetting {
 protected:
  std::pair<at::Tensor, at::Tensor> loss_and_gradients(const Model& model, const Batch& batch, Context& context) const {
    const at::Device device = options().device();
    model.arena->zero_gradients();
    const at::Tensor loss = model.gpt.loss(batch.tokens.to(device), batch.targets.to(device), context);
    loss.backward();
    model.arena->collect_gradients();
    return {loss.detach().clone(), model.arena->gradients().clone()};
  }

  void expect_same_model(const GptShape& shape, const Batch& batch, double dropout) const {
    const Model model = make_lively_model(shape, {.options = options(), .gradients = gradients()});
    const oracle::Weights weights = oracle_weights(*model.arena);
    Context ours = with_dropout(dropout, random_key(3, Purpose::dropout, 5));
    oracle::Gpt plain = oracle_gpt(shape);
    plain.dropout = {dropout, ours.dropout_key};

    const at::Tensor tokens = batch.tokens.to(options().device()), targets = batch.targets.to(options().device());
    const at::Tensor loss = model.gpt.loss(tokens, targets, ours);
    const at::Tensor expected = plain.loss(weights, batch.tokens, batch.targets);
    const oracle::Roundings of_logits = logits_roundings(shape, batch.tokens.size(1));
    const oracle::Roundings of_gradients = gradient_roundings(shape, batch.tokens.size(1), batch.tokens.numel());
    EXPECT_LT(oracle::error(loss, expected), tolerance(of_logits));
    loss.backward();
    model.arena->collect_gradients();
    expected.backward();
    for (const auto& [name, weight] : weights) {
      const Parameter& parameter = model.arena->parameter(name);
      const at::Tensor gradient = model.arena->gradients().narrow(0, parameter.offset, parameter.count);
      EXPECT_LT(oracle::error(gradient.view(weight.sizes()), weight.grad()), tolerance(of_gradients)) << name;
    }
    if (dropout > 0.0) return;
    const at::Tensor logits = model.gpt.logits(tokens, ours);
    EXPECT_LT(oracle::error(logits, plain.logits(weights, batch.tokens)), tolerance(of_logits));
  }

  // Of two passes over tokens [B, T], either of which has errors.
  void expect_same_gradients(const Model& model, const at::Tensor& a, const at::Tensor& b,
                             at::IntArrayRef sizes) const {
    const double allowed = 2.0 * tolerance(gradient_roundings(small_shape, sizes[1], sizes[0] * sizes[1]));
    for (const Parameter& parameter : model.arena->parameters()) {
      const auto part = [&](const at::Tensor& flat) {
        return flat.narrow(0, parameter.offset, parameter.count).view(parameter.spec.shape);
      };
      EXPECT_LT(oracle::error(part(a), part(b)), allowed) << parameter.spec.name;
    }
  }
};

TEST_P(ModelMatchesOracle, LossLogitsAndEveryGradient) {
  for (const bool bias : {true, false}) {
    for (const GeluForm gelu : {GeluForm::tanh, GeluForm::exact}) {
      GptShape shape = small_shape;
      shape.bias = bias;
      shape.gelu = gelu;
      SCOPED_TRACE(testing::Message() << "bias " << bias << ", exact " << (gelu == GeluForm::exact));
      expect_same_model(shape, make_batch(shape, 3, 17), 0.0);
    }
  }
}

class ModelWithOurDropoutMatchesOracle : public ModelMatchesOracle {};

TEST_P(ModelWithOurDropoutMatchesOracle, LossAndEveryGradient) {
  expect_same_model(small_shape, make_batch(small_shape, 3, 17), 0.15);
}

TEST_P(ModelMatchesOracle, TwiceTheSameStepGivesTheSameBits) {
  const Model model = make_lively_model(small_shape, {.options = options(), .gradients = gradients()});
  const Batch batch = make_batch(small_shape, 3, 17);
  const auto step = [&] {
    Context ours = with_dropout(0.1, 42);
    seed_dropout(options().device(), ours);
    return loss_and_gradients(model, batch, ours);
  };
  const auto [loss, gradients] = step();
  const auto [again_loss, again_gradients] = step();
  EXPECT_TRUE(oracle::identical(loss, again_loss));
  EXPECT_TRUE(oracle::identical(gradients, again_gradients));
}

TEST_P(ModelMatchesOracle, AModelThatIsNotTrainedHasTheSameLoss) {
  const Batch batch = make_batch(small_shape, 3, 17);
  const auto loss = [&](bool trainable) {
    const Model model = make_lively_model(
        small_shape, {.options = options(), .gradients = trainable ? Gradients::as_weights : Gradients::none});
    Context ours = context();
    return model.gpt.loss(batch.tokens.to(options().device()), batch.targets.to(options().device()), ours);
  };
  EXPECT_FALSE(loss(false).requires_grad());
  EXPECT_TRUE(oracle::identical(loss(false), loss(true)));
}

// Micro-batches of equal size, each with its share of the loss: the gradient of the whole batch.
TEST_P(ModelMatchesOracle, TwoMicroBatchesGiveTheGradientOfTheBatch) {
  const Model model = make_lively_model(small_shape, {.options = options(), .gradients = gradients()});
  const at::Device device = options().device();
  const at::Tensor tokens = oracle::tokens(1, {4, 20}, small_shape.vocab_size).to(device);
  const at::Tensor targets = oracle::tokens(2, {4, 20}, small_shape.vocab_size).to(device);
  const auto gradients_in = [&](std::int64_t parts) {
    model.arena->zero_gradients();
    const std::int64_t rows = 4 / parts;
    for (std::int64_t part = 0; part < parts; ++part) {
      Context ours = context();
      const at::Tensor loss =
          model.gpt.loss(tokens.narrow(0, part * rows, rows), targets.narrow(0, part * rows, rows), ours);
      (loss / static_cast<double>(parts)).backward();
      model.arena->collect_gradients();
    }
    return model.arena->gradients().clone();
  };
  expect_same_gradients(model, gradients_in(2), gradients_in(1), {4, 20});
}

class FusedModel : public ModelMatchesOracle {};

// The fused operations write the gradients of matrices, whatever was there, where the context says so.
TEST_P(FusedModel, OverwritingGivesWhatAddingToZeroGives) {
  const Model model = make_lively_model(small_shape, {.options = options(), .gradients = gradients()});
  const Batch batch = make_batch(small_shape, 3, 17);
  const auto gradients_of_pass = [&](bool overwrites) {
    for (const Parameter& parameter : model.arena->parameters()) {
      model.arena->gradients().narrow(0, parameter.offset, parameter.count).fill_(NAN);
    }
    overwrites ? model.arena->zero_vector_gradients() : model.arena->zero_gradients();
    Context ours = context();
    ours.overwrites = overwrites;
    const at::Device device = options().device();
    model.gpt.loss(batch.tokens.to(device), batch.targets.to(device), ours).backward();
    return model.arena->gradients().clone();
  };
  expect_same_gradients(model, gradients_of_pass(true), gradients_of_pass(false), batch.tokens.sizes());
}

// What is computed again comes out as it was, dropout included where its numbers are ours.
TEST_P(ModelMatchesOracle, RecomputingGivesTheSameBits) {
  const Model model = make_lively_model(small_shape, {.options = options(), .gradients = gradients()});
  const Batch batch = make_batch(small_shape, 3, 17);
  const auto step = [&](Recompute recompute) {
    Context ours = with_dropout(numbers_are_ours() ? 0.1 : 0.0, 42);
    ours.recompute = recompute;
    return loss_and_gradients(model, batch, ours);
  };
  const auto [loss, gradients] = step(Recompute::none);
  for (const Recompute recompute : {Recompute::gelu, Recompute::block}) {
    const auto [again_loss, again_gradients] = step(recompute);
    if (recompute == Recompute::gelu && on_gpu()) {  // cublasLt's GELU, without which it can be repeated
      expect_same_gradients(model, again_gradients, gradients, batch.tokens.sizes());
      continue;
    }
    EXPECT_TRUE(oracle::identical(loss, again_loss));
    EXPECT_TRUE(oracle::identical(gradients, again_gradients));
  }
}

INKLING_ON_EVERY_SETTING(ModelMatchesOracle);
INKLING_ON_SETTINGS_WHERE(ModelWithOurDropoutMatchesOracle, oracle::numbers_are_ours);
INKLING_ON_SETTINGS_WHERE(FusedModel, oracle::is_fused);

}  // namespace
}  // namespace inkling::test
