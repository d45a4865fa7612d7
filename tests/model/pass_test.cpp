// What two training passes over the same batch have in common: twice, in parts, and computed again.
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/model/small_model.h"
#include "tests/oracle/tensors.h"
#include "tests/oracle/tolerances.h"

namespace inkling::test {
namespace {

class TrainingPasses : public oracle::OnEverySetting {
 protected:
  // Gradients of matrices that nobody has written are NaN before.
  std::pair<at::Tensor, at::Tensor> loss_and_gradients(const SmallModel& small, const Batch& batch,
                                                       const TrainingPass& training) const {
    const at::Device device = options().device();
    for (const Parameter& parameter : small.arena->parameters()) {
      small.arena->gradients().narrow(0, parameter.offset, parameter.count).fill_(NAN);
    }
    small.arena->begin_gradients();
    const at::Tensor loss = small.model->loss(batch.tokens.to(device), batch.targets.to(device), training);
    loss.backward();
    small.arena->collect_gradients();
    return {loss.detach().clone(), small.arena->gradients().clone()};
  }
  SmallModel lively_model(const GptShape& shape = small_shape) const {
    return make_lively_model(shape, {.runtime = runtime()});
  }

  // Of two passes over tokens [B, T], either of which has errors.
  void expect_same_gradients(const SmallModel& small, const at::Tensor& a, const at::Tensor& b,
                             at::IntArrayRef sizes) const {
    const double allowed = 2.0 * tolerance(gradient_roundings(small_shape, sizes[1], sizes[0] * sizes[1]));
    for (const Parameter& parameter : small.arena->parameters()) {
      const auto part = [&](const at::Tensor& flat) {
        return flat.narrow(0, parameter.offset, parameter.count).view(parameter.spec.shape);
      };
      EXPECT_LT(oracle::error(part(a), part(b)), allowed) << parameter.spec.name;
    }
  }
};

TEST_P(TrainingPasses, TwiceTheSameStepGivesTheSameBits) {
  const SmallModel small = lively_model();
  const Batch batch = make_batch(small_shape, 3, 17);
  const auto step = [&] {
    seed_generator(options().device(), 42);
    return loss_and_gradients(small, batch, training(0.1, 42));
  };
  const auto [loss, gradients] = step();
  const auto [again_loss, again_gradients] = step();
  EXPECT_TRUE(oracle::identical(loss, again_loss));
  EXPECT_TRUE(oracle::identical(gradients, again_gradients));
}

TEST_P(TrainingPasses, AModelThatIsNotTrainedHasTheSameLoss) {
  const Batch batch = make_batch(small_shape, 3, 17);
  const auto loss = [&](Use use) {
    const SmallModel small = make_lively_model(small_shape, {.runtime = runtime(), .use = use});
    return small.model->loss(batch.tokens.to(options().device()), batch.targets.to(options().device()));
  };
  EXPECT_FALSE(loss(Use::inference).requires_grad());
  EXPECT_TRUE(oracle::identical(loss(Use::inference), loss(Use::training)));
}

// Micro-batches of equal size, each with its share of the loss: the gradient of the whole batch.
TEST_P(TrainingPasses, TwoMicroBatchesGiveTheGradientOfTheBatch) {
  const SmallModel small = lively_model();
  const at::Device device = options().device();
  const at::Tensor tokens = oracle::tokens(1, {4, 20}, small_shape.vocab_size).to(device);
  const at::Tensor targets = oracle::tokens(2, {4, 20}, small_shape.vocab_size).to(device);
  const auto gradients_in = [&](std::int64_t parts) {
    small.arena->begin_gradients();
    const std::int64_t rows = 4 / parts;
    for (std::int64_t part = 0; part < parts; ++part) {
      const at::Tensor loss =
          small.model->loss(tokens.narrow(0, part * rows, rows), targets.narrow(0, part * rows, rows));
      (loss / static_cast<double>(parts)).backward();
      small.arena->collect_gradients();
    }
    return small.arena->gradients().clone();
  };
  expect_same_gradients(small, gradients_in(2), gradients_in(1), {4, 20});
}

// What is computed again comes out as it was, dropout included where its numbers are ours.
TEST_P(TrainingPasses, RecomputingGivesTheSameBits) {
  for (const GptShape& shape : {small_shape, modern_shape}) {
    const SmallModel small = lively_model(shape);
    const Batch batch = make_batch(shape, 3, 17);
    const auto step = [&](Recompute recompute) {
      TrainingPass pass = training(numbers_are_ours() ? 0.1 : 0.0, 42);
      pass.recompute = recompute;
      return loss_and_gradients(small, batch, pass);
    };
    const auto [loss, gradients] = step(Recompute::none);
    for (const Recompute recompute : {Recompute::gelu, Recompute::block}) {
      const auto [again_loss, again_gradients] = step(recompute);
      if (recompute == Recompute::gelu && on_gpu()) {  // cublasLt's GELU, without which it can be repeated
        expect_same_gradients(small, again_gradients, gradients, batch.tokens.sizes());
        continue;
      }
      EXPECT_TRUE(oracle::identical(loss, again_loss));
      EXPECT_TRUE(oracle::identical(gradients, again_gradients));
    }
  }
}

INKLING_ON_EVERY_SETTING(TrainingPasses);

}  // namespace
}  // namespace inkling::test
