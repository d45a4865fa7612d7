// What a training step works on, and what it takes from the machine.
#include "train/trainer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <vector>

#include "evaluate/validation.h"
#include "runtime/cpu_memory.h"
#include "tests/oracle/tensors.h"
#include "tests/temporary_folder.h"
#include "tests/token_shard.h"

namespace inkling {
namespace {

class TrainerMemory : public testing::TestWithParam<double> {};  // the dropout

TEST_P(TrainerMemory, NoTensorMemoryIsTakenFromTheSystemAfterTheSecondStep) {
  reuse_cpu_memory();
  const TemporaryFolder folder;
  const TokenSequence tokens({write_shard(folder / "tokens.bin", std::vector<Token>(500, 7))}, 50);
  Config config;
  config.model = {{.n_layer = 3, .n_head = 3, .n_embd = 48, .block_size = 17}, GetParam()};
  config.training.batch_size = 6;
  config.training.micro_batch_size = 3;
  config.training.max_steps = 10;
  const TrainingWindows windows(tokens, {.order = WindowKind::random, .block_size = 17});
  const Runtime runtime = {.threads = 2};
  Trainer trainer(config, shape_from(config.model, 50), runtime);
  initialize(trainer.arena(), shape_from(config.model, 50), 1);
  trainer.step(0, windows);
  trainer.step(1, windows);
  const CpuMemory before = cpu_memory();
  for (std::int64_t step = 2; step < 6; ++step) trainer.step(step, windows);
  EXPECT_EQ(cpu_memory().allocations, before.allocations);
  EXPECT_EQ(cpu_memory().held, before.held);
}

INSTANTIATE_TEST_SUITE_P(WithAndWithoutDropout, TrainerMemory, testing::Values(0.0, 0.2));

TEST(Batches, HoldEachWindowAndTheTokenThatFollowsEach) {
  const TemporaryFolder folder;
  const TokenSequence tokens({write_shard(folder / "tokens.bin", {10, 11, 12, 13, 14, 15, 16, 17})}, 50);
  const Batch batch = empty_batch(3, 4, at::kCPU);
  fill_batch(batch, tokens, std::vector<Row>{{{3, 4}}, {{0, 4}}});
  const std::vector<std::int64_t> expected = {13, 14, 15, 16, 10, 11, 12, 13, 0, 0, 0, 0};
  const std::vector<std::int64_t> targets = {14, 15, 16, 17, 11, 12, 13, 14, 0, 0, 0, 0};
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), batch.tokens.const_data_ptr<std::int64_t>()));
  EXPECT_TRUE(std::equal(targets.begin(), targets.end(), batch.targets.const_data_ptr<std::int64_t>()));
}

// Documents begin with a 9. The second row has two, and room for two tokens more.
TEST(Batches, SayWhereInItsDocumentEachTokenStands) {
  const TemporaryFolder folder;
  const TokenSequence tokens({write_shard(folder / "tokens.bin", {11, 9, 12, 13, 9, 14, 15, 16, 9, 17})}, 50);
  const Batch batch = empty_batch(2, 6, at::kCPU, true);
  fill_batch(batch, tokens, std::vector<Row>{{{0, 6}}, {{7, 1}, {4, 3}}}, 9);
  const auto expect = [](const at::Tensor& actual, const std::vector<std::int64_t>& expected) {
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), actual.const_data_ptr<std::int64_t>())) << actual;
  };
  expect(batch.tokens, {11, 9, 12, 13, 9, 14, 16, 9, 14, 15, 9, 9});
  expect(batch.targets, {9, 12, 13, 9, 14, 15, 9, 14, 15, 16, not_scored, not_scored});
  expect(batch.positions, {0, 0, 1, 2, 0, 1, 0, 0, 1, 2, 0, 1});
  EXPECT_EQ(scored_targets(std::vector<Row>{{{0, 6}}, {{7, 1}, {4, 3}}}), 10u);
}

TEST(Batches, TakeTheirWindowsInTheRunsOrder) {
  const TemporaryFolder folder;
  const TokenSequence tokens({write_shard(folder / "tokens.bin", std::vector<Token>(1000, 7))}, 50);
  const WindowOrder order(WindowKind::random, 5, 1000, 16);
  const TrainingWindows windows(tokens, {.order = WindowKind::random, .seed = 5, .block_size = 16});
  std::vector<Row> expected;
  for (std::uint64_t number = 18; number < 24; ++number) expected.push_back({{order.start(number), 16}});
  EXPECT_EQ(training_rows(windows, 3, 6), expected);
}

TEST(DropoutKey, DiffersBySeedStepAndMicroBatch) {
  const std::set<std::uint64_t> keys = {dropout_key(1, 1, 0), dropout_key(2, 1, 0), dropout_key(1, 2, 0),
                                        dropout_key(1, 1, 4)};
  EXPECT_EQ(keys.size(), 4u);
  EXPECT_EQ(dropout_key(1, 1, 4), dropout_key(1, 1, 4));
}

// Batches of two windows of 16 tokens, for a model of one layer that knows 50.
class Training : public testing::Test {
 protected:
  Training() {
    config_.model = {{.n_layer = 1, .n_head = 1, .n_embd = 8, .block_size = 16}};
    config_.training.batch_size = 2;
    config_.training.micro_batch_size = 2;
    config_.training.max_steps = 10;
  }

  TokenSequence write_tokens(const std::vector<Token>& tokens) const {
    return TokenSequence({write_shard(folder_ / "tokens.bin", tokens)}, 50);
  }

  std::unique_ptr<Trainer> trainer(Kernels kernels = Kernels::fused) const {
    const GptShape shape = shape_from(config_.model, 50);
    auto made = std::make_unique<Trainer>(config_, shape, Runtime{.kernels = kernels, .threads = 1});
    initialize(made->arena(), shape, 1);
    return made;
  }

  const TemporaryFolder folder_;
  static TrainingWindows windows_of(const TokenSequence& tokens) {
    return {tokens, {.order = WindowKind::random, .block_size = 16}};
  }

  Config config_;
};

TEST_F(Training, EachStepHasTheLearningRateOfItsNumber) {
  const TokenSequence tokens = write_tokens(std::vector<Token>(100, 7));
  config_.optimizer.learning_rate = 1e-3;
  config_.schedule.warmup_steps = 1;
  config_.training.max_steps = 3;
  const auto made = trainer();
  for (std::int64_t step = 0; step < 3; ++step) made->step(step, windows_of(tokens));
  const auto results = made->results();
  ASSERT_EQ(results.size(), 3u);
  EXPECT_DOUBLE_EQ(results[0].learning_rate, 0.5e-3);  // in the middle of a warm-up of one step
  EXPECT_DOUBLE_EQ(results[1].learning_rate, 1e-3);
  const double half = config_.schedule.min_learning_rate + (1e-3 - config_.schedule.min_learning_rate) / 2;
  EXPECT_DOUBLE_EQ(results[2].learning_rate, half);  // of the way down
}

TEST_F(Training, NormsOfTheGroupsAreThoseOfTheirParametersAndTogetherTheWhole) {
  const TokenSequence tokens = write_tokens(std::vector<Token>(100, 7));
  for (const bool tied : {true, false}) {
    config_.model.tie_embeddings = tied;
    for (const Kernels kernels : {Kernels::fused, Kernels::reference}) {
      const auto made = trainer(kernels);
      made->step(0, windows_of(tokens));
      const double whole = made->results().at(0).grad_norm;
      double together = 0;
      const std::vector<GroupNorms> norms = made->norms();
      EXPECT_EQ(norms.size(), tied ? 3u : 4u);  // a tied head is the embedding
      for (const GroupNorms& group : norms) {
        double gradient = 0, weights = 0;
        for (const Parameter& parameter : made->arena().parameters()) {
          if (group_name(parameter.spec.group) != group.name) continue;
          const auto square = [&](const at::Tensor& flat) {
            return parameter.part_of(flat).to(at::kDouble).square().sum().item<double>();
          };
          gradient += square(made->arena().gradients());
          weights += square(made->arena().values());
        }
        EXPECT_NEAR(group.gradient, std::sqrt(gradient), 1e-6 * std::sqrt(gradient)) << group.name;
        EXPECT_NEAR(group.weights, std::sqrt(weights), 1e-6 * std::sqrt(weights)) << group.name;
        together += group.gradient * group.gradient;
      }
      EXPECT_NEAR(std::sqrt(together), whole, 1e-6 * whole);
    }
  }
}

TEST_F(Training, DropoutFallsByTheKeyOfTheMicroBatch) {
  std::vector<Token> different;
  for (Token i = 0; i < 100; ++i) different.push_back(i % 50);
  const TokenSequence tokens = write_tokens(different);
  config_.model.dropout = 0.3;
  const Batch batch = empty_batch(2, 16, at::kCPU);
  fill_batch(batch, tokens, training_rows(windows_of(tokens), 5, 2));
  for (const Kernels kernels : {Kernels::fused, Kernels::reference}) {
    const auto made = trainer(kernels);
    const std::uint64_t key = dropout_key(config_.training.seed, 5);
    const auto loss = [&](double dropout) {
      const TrainingPass pass = {.dropout = dropout, .dropout_key = oracle::key_on(at::kCPU, key)};
      return made->model().loss(batch.tokens, batch.targets, pass).item<double>();
    };
    const double with_dropout = loss(0.3), without = loss(0.0);
    made->step(5, windows_of(tokens));
    EXPECT_NEAR(made->results().at(0).loss, with_dropout, 1e-6);
    EXPECT_GT(std::abs(with_dropout - without), 1e-4);
  }
}

// A row of the embedding is found by its token: one outside the vocabulary must not come that far.
TEST_F(Training, RefusesATokenOutsideTheVocabularyWithItsPlace) {
  const TokenSequence tokens = write_tokens(std::vector<Token>(100, 50));
  config_.training.micro_batch_size = 1;
  for (const Kernels kernels : {Kernels::fused, Kernels::reference}) {
    const auto made = trainer(kernels);
    const Runtime runtime = {.kernels = kernels, .threads = 1};
    const std::string place = "tokens.bin: token number ";
    EXPECT_TRUE(contains(input_error([&] { made->step(0, windows_of(tokens)); }), place));
    EXPECT_TRUE(contains(input_error([&] { made->estimate_loss(tokens); }), place));
    EXPECT_TRUE(contains(input_error([&] { score_windows(made->model(), runtime, tokens); }), place));
  }
}

}  // namespace
}  // namespace inkling
