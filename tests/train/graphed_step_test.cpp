// The step on a GPU, recorded and repeated, against the step on the CPU. (Emulated: see
// tests/oracle/emulated_library.h.)
#include "train/graphed_step.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <optional>

#include "tests/oracle/emulated_library.h"
#include "tests/oracle/tensors.h"
#include "tests/temporary_folder.h"
#include "train/trainer.h"

namespace inkling {
namespace {

class GraphedStepTest : public testing::Test {
 protected:
  GraphedStepTest() {
    TokenShardWriter writer(folder_ / "tokens.bin", TokenWidth::u16);
    std::vector<Token> drawn;
    for (std::uint64_t i = 0; i < 500; ++i) drawn.push_back(static_cast<Token>(random_below(1, i, 30)));
    writer.append(drawn);
    writer.commit();
    tokens_.emplace(std::vector{folder_ / "tokens.bin"}, 30);
    order_.emplace(WindowKind::random, 1, tokens_->count(), 16);
    config_.model = {.n_layer = 2, .n_head = 2, .n_embd = 24, .block_size = 16, .dropout = 0.1};
    config_.training.batch_size = 6;
    config_.training.micro_batch_size = 2;
    config_.training.max_steps = 10;
    config_.schedule.warmup_steps = 2;
    config_.optimizer.learning_rate = 1e-2;
    config_.optimizer.grad_clip = 0.5;
  }

  std::unique_ptr<Trainer> trainer() const {
    const GptShape shape = shape_from(config_.model, 30);
    auto made = std::make_unique<Trainer>(config_, shape, Runtime{.threads = 2});
    initialize(made->arena(), shape, 1);
    return made;
  }
  void step(Trainer& trainer, std::int64_t number) const { trainer.step(number, *tokens_, *order_); }

  void expect_what_the_cpu_learns() const {
    const auto on_cpu_owner = trainer();
    Trainer& on_cpu = *on_cpu_owner;
    for (std::int64_t number = 0; number < 8; ++number) step(on_cpu, number);
    const auto expected = on_cpu.results();

    const oracle::EmulatedGpu gpu;
    const auto on_gpu_owner = trainer();
    Trainer& on_gpu = *on_gpu_owner;
    for (std::int64_t number = 0; number < 5; ++number) step(on_gpu, number);
    auto results = on_gpu.results();
    ASSERT_EQ(results.size(), 5u);
    for (std::int64_t number = 5; number < 8; ++number) step(on_gpu, number);
    for (const StepResult& later : on_gpu.results()) results.push_back(later);
    ASSERT_EQ(results.size(), 8u);
    EXPECT_TRUE(on_gpu.results().empty());
    for (std::size_t i = 0; i < 8; ++i) {
      EXPECT_NEAR(results[i].loss, expected[i].loss, 2e-5) << "step " << i;
      EXPECT_NEAR(results[i].grad_norm, expected[i].grad_norm, 1e-4 * expected[i].grad_norm) << "step " << i;
      EXPECT_EQ(results[i].learning_rate, expected[i].learning_rate);
      EXPECT_FALSE(results[i].skipped);
    }
    EXPECT_GT(expected[0].grad_norm, config_.optimizer.grad_clip);  // clipping is part of the comparison
    EXPECT_LT(oracle::error(on_gpu.arena().values(), on_cpu.arena().values()), 1e-3);
    EXPECT_EQ(on_gpu.optimizer().steps(), 8);
  }

  const TemporaryFolder folder_;
  std::optional<TokenSequence> tokens_;
  std::optional<WindowOrder> order_;
  Config config_;
};

TEST_F(GraphedStepTest, LearnsWhatTheStepOnTheCpuLearns) { expect_what_the_cpu_learns(); }

TEST_F(GraphedStepTest, WithTheWholeBatchAtOnceToo) {
  config_.training.micro_batch_size = config_.training.batch_size;
  expect_what_the_cpu_learns();
}

TEST_F(GraphedStepTest, MakingItChangesNeitherWeightsNorMoments) {
  const oracle::EmulatedGpu gpu;
  const auto made_owner = trainer();
  Trainer& made = *made_owner;
  const at::Tensor before = made.arena().values().clone();
  const GraphedStep graphed(config_, made.model(), made.arena(), made.optimizer());
  EXPECT_TRUE(oracle::identical(made.arena().values(), before));
  EXPECT_EQ(made.optimizer().moment1().abs().max().item<double>(), 0.0);
  EXPECT_EQ(made.optimizer().steps(), 0);
}

TEST_F(GraphedStepTest, AStepWhoseGradientIsNotFiniteIsSkippedAndNotCounted) {
  const oracle::EmulatedGpu gpu;
  const auto made_owner = trainer();
  Trainer& made = *made_owner;
  step(made, 0);
  const at::Tensor weight = made.arena().master("h.0.mlp.c_fc.weight").select(0, 0).select(0, 0);
  const at::Tensor sound = weight.clone();
  weight.fill_(std::numeric_limits<double>::infinity());
  const at::Tensor before = made.arena().values().clone();
  step(made, 1);
  EXPECT_TRUE(oracle::identical(made.arena().values(), before));
  weight.copy_(sound);
  step(made, 2);
  const auto results = made.results();
  EXPECT_FALSE(results[0].skipped);
  EXPECT_TRUE(results[1].skipped);
  EXPECT_FALSE(results[2].skipped);
  EXPECT_EQ(made.optimizer().steps(), 2);
}

}  // namespace
}  // namespace inkling
