// What a training step takes from the machine.
#include "train/trainer.h"

#include <gtest/gtest.h>

#include "runtime/cpu_memory.h"
#include "tests/temporary_folder.h"
#include "train/evaluate.h"

namespace inkling {
namespace {

class TrainerMemory : public testing::TestWithParam<double> {};  // the dropout

TEST_P(TrainerMemory, NoTensorMemoryIsTakenFromTheSystemAfterTheSecondStep) {
  reuse_cpu_memory();
  const TemporaryFolder folder;
  TokenShardWriter writer(folder / "tokens.bin", TokenWidth::u16);
  writer.append(std::vector<Token>(500, 7));
  writer.commit();
  const TokenSequence tokens({folder / "tokens.bin"}, 50);

  Config config;
  config.model = {.n_layer = 3, .n_head = 3, .n_embd = 48, .block_size = 17, .dropout = GetParam()};
  config.training.batch_size = 6;
  config.training.micro_batch_size = 3;
  config.training.max_steps = 10;
  const WindowOrder order(WindowKind::random, 1, tokens.count(), 17);
  const Runtime runtime = {.threads = 2};
  Trainer trainer(config, shape_from(config.model, 50), runtime);
  initialize(trainer.arena(), shape_from(config.model, 50), 1);
  trainer.step(0, tokens, order);
  trainer.step(1, tokens, order);
  const CpuMemory before = cpu_memory();
  for (std::int64_t step = 2; step < 6; ++step) trainer.step(step, tokens, order);
  EXPECT_EQ(cpu_memory().allocations, before.allocations);
  EXPECT_EQ(cpu_memory().held, before.held);
}

INSTANTIATE_TEST_SUITE_P(WithAndWithoutDropout, TrainerMemory, testing::Values(0.0, 0.2));

// A row of the embedding is found by its token: one outside the vocabulary must not come that far.
TEST(Training, RefusesATokenOutsideTheVocabularyWithItsPlace) {
  const TemporaryFolder folder;
  TokenShardWriter writer(folder / "tokens.bin", TokenWidth::u16);
  writer.append(std::vector<Token>(100, 50));
  writer.commit();
  const TokenSequence tokens({folder / "tokens.bin"}, 50);
  Config config;
  config.model = {.n_layer = 1, .n_head = 1, .n_embd = 8, .block_size = 16};
  config.training.batch_size = 2;
  config.training.micro_batch_size = 1;
  config.training.max_steps = 10;
  const WindowOrder order(WindowKind::random, 1, tokens.count(), 16);
  for (const Kernels kernels : {Kernels::fused, Kernels::reference}) {
    const GptShape shape = shape_from(config.model, 50);
    const Runtime runtime = {.kernels = kernels, .threads = 1};
    Trainer trainer(config, shape, runtime);
    initialize(trainer.arena(), shape, 1);
    const std::string place = "tokens.bin: token number ";
    EXPECT_TRUE(contains(input_error([&] { trainer.step(0, tokens, order); }), place));
    EXPECT_TRUE(contains(input_error([&] { trainer.estimate_loss(tokens); }), place));
    EXPECT_TRUE(contains(input_error([&] { score_windows(trainer.model(), runtime, tokens); }), place));
  }
}

}  // namespace
}  // namespace inkling
