// Leaves: the same bits whatever the number of workers, and a sum whose order is written down.
#include "train/leaves.h"

#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>

#include <memory>
#include <set>
#include <vector>

#include "runtime/cpu_memory.h"
#include "tests/oracle/tensors.h"
#include "tests/temporary_folder.h"
#include "tests/token_shard.h"
#include "train/trainer.h"

namespace inkling {
namespace {

TEST(LeafSums, AreAddedUpAsABalancedTree) {
  EXPECT_EQ((LeafSum{0, 8}.first()), (LeafSum{0, 4}));
  EXPECT_EQ((LeafSum{0, 8}.second()), (LeafSum{4, 8}));
  EXPECT_EQ((LeafSum{0, 5}.first()), (LeafSum{0, 4}));  // ((0 + 1) + (2 + 3)) + 4
  EXPECT_EQ((LeafSum{0, 7}.second()), (LeafSum{4, 7}));
  EXPECT_EQ((LeafSum{4, 7}.first()), (LeafSum{4, 6}));
  EXPECT_EQ((LeafSum{0, 2}.second()), (LeafSum{1, 2}));
}

TEST(LeafSums, GiveEachLeafToOneWorkerAndSplitTheTreeNowhereElse) {
  std::function<bool(const LeafSum&, const LeafSum&)> is_of_tree = [&](const LeafSum& tree, const LeafSum& sum) {
    if (tree == sum) return true;
    return tree.count() > 1 && (is_of_tree(tree.first(), sum) || is_of_tree(tree.second(), sum));
  };
  for (std::int64_t leaves = 1; leaves < 40; ++leaves) {
    for (int workers = 1; workers < 9; ++workers) {
      std::int64_t next = 0, most = 0;
      for (int worker = 0; worker < workers; ++worker) {
        const std::int64_t before = next;
        for (const LeafSum& sum : sums_of_worker(leaves, worker, workers)) {
          EXPECT_EQ(sum.begin, next);
          EXPECT_TRUE(is_of_tree({0, leaves}, sum));
          next = sum.end;
        }
        most = std::max(most, next - before);
      }
      EXPECT_EQ(next, leaves);
      EXPECT_EQ(most, (leaves + workers - 1) / workers);
      EXPECT_GE(gradients_held(leaves, workers), std::min<std::int64_t>(leaves, workers));
    }
  }
  EXPECT_EQ(gradients_held(2, 2), 2);
  EXPECT_EQ(gradients_held(8, 1), 4);
  EXPECT_EQ(gradients_held(8, 2), 6);
}

struct Case {
  std::string name;
  std::function<void(Config&)> change;
};

// Documents begin with a 1.
class Leaves : public testing::TestWithParam<Case> {
 protected:
  Leaves() {
    reuse_cpu_memory();
    std::vector<Token> text;
    for (Token i = 0; i < 3000; ++i) text.push_back(i % 23 == 0 ? 1 : 2 + (i * i + i / 7) % 40);
    tokens_.emplace(std::vector<std::filesystem::path>{write_shard(folder_ / "tokens.bin", text)}, 50);
    config_.model = {{.n_layer = 2, .n_head = 2, .n_embd = 32, .block_size = 32}, 0.0};
    config_.optimizer.learning_rate = 1e-2;
    config_.training.batch_size = 12;
    config_.training.micro_batch_size = 2;
    config_.training.max_steps = 100;
    GetParam().change(config_);
  }

  std::optional<Token> separator() const {
    return config_.data.documents == Documents::join ? std::nullopt : std::optional<Token>(1);
  }

  TrainingWindows windows() const {
    return {
        *tokens_,
        {.order = WindowKind::epoch, .block_size = 32, .documents = config_.data.documents, .separator = separator()}};
  }

  std::unique_ptr<Trainer> trainer(int threads, WorkSplit split, Kernels kernels = Kernels::fused) const {
    const GptShape shape = shape_from(config_.model, 50);
    at::set_num_threads(threads);
    auto made = std::make_unique<Trainer>(config_, shape,
                                          Runtime{.kernels = kernels, .threads = threads, .split = split}, separator());
    initialize(made->arena(), shape, 1);
    if (made->average() != nullptr) made->average()->begin();
    return made;
  }

  // Everything that a run is judged by, after a few steps.
  struct Outcome {
    std::vector<at::Tensor> tensors;
    std::vector<double> numbers;
  };

  Outcome train(int threads, WorkSplit split, Kernels kernels = Kernels::fused) const {
    const auto made = trainer(threads, split, kernels);
    for (std::int64_t step = 0; step < 4; ++step) made->step(step, windows());
    Outcome outcome;
    for (const StepResult& result : made->results()) {
      outcome.numbers.push_back(result.loss);
      outcome.numbers.push_back(result.grad_norm);
    }
    outcome.numbers.push_back(made->estimate_loss(*tokens_));
    outcome.tensors = {made->arena().values().clone(), made->arena().gradients().clone()};
    for (const OptimizerState& state : made->optimizer().states()) outcome.tensors.push_back(state.value.clone());
    if (made->average() != nullptr) outcome.tensors.push_back(made->average()->values().clone());
    return outcome;
  }

  const TemporaryFolder folder_;
  std::optional<TokenSequence> tokens_;
  Config config_;
};

TEST_P(Leaves, GiveTheSameBitsWithAnyNumberOfThreads) {
  for (const Kernels kernels : {Kernels::fused, Kernels::reference}) {
    const Outcome expected = train(1, WorkSplit::batch, kernels);
    for (const int threads : {2, 3, 5, 8}) {
      const Outcome outcome = train(threads, WorkSplit::batch, kernels);
      EXPECT_EQ(outcome.numbers, expected.numbers) << threads;
      ASSERT_EQ(outcome.tensors.size(), expected.tensors.size());
      for (std::size_t i = 0; i < expected.tensors.size(); ++i) {
        EXPECT_TRUE(oracle::identical(outcome.tensors[i], expected.tensors[i])) << threads << " threads, tensor " << i;
      }
    }
  }
}

// How a batch is computed changes how its numbers are rounded, and nothing else. Muon divides by small numbers.
TEST_P(Leaves, LearnWhatProductsThatAreSplitLearn) {
  const Outcome leaves = train(3, WorkSplit::batch), products = train(2, WorkSplit::products);
  for (std::size_t i = 0; i < products.numbers.size(); ++i) {
    EXPECT_NEAR(leaves.numbers[i], products.numbers[i], 2e-4 * std::abs(products.numbers[i])) << i;
  }
  EXPECT_LT(oracle::error(leaves.tensors.front(), products.tensors.front().to(at::kDouble)), 2e-3);
  if (config_.training.ema == 0) return;
  EXPECT_LT(oracle::error(leaves.tensors.back(), products.tensors.back().to(at::kDouble)), 2e-3);
}

// Each leaf's gradient from fresh memory, added in the order of the tree.
TEST_P(Leaves, AreAddedUpInTheOrderOfTheTree) {
  config_.model.dropout = 0.0;
  const auto whole = trainer(2, WorkSplit::batch);
  whole->step(0, windows());
  const std::vector<Row> rows = training_rows(windows(), 0, 12);
  const auto scored = static_cast<double>(scored_targets(rows));
  const auto judge = trainer(1, WorkSplit::batch);
  ParameterArena& arena = judge->arena();
  std::vector<at::Tensor> gradients;
  for (std::size_t leaf = 0; leaf < 6; ++leaf) {
    const std::span<const Row> own = std::span(rows).subspan(2 * leaf, 2);
    const Batch batch = empty_batch(2, 32, at::kCPU, separator().has_value());
    fill_batch(batch, *tokens_, own, separator());
    arena.begin_gradients();
    const at::Tensor loss = judge->model().loss(
        batch.tokens, batch.targets, {.recompute = config_.training.recompute, .positions = batch.positions});
    loss.mul(static_cast<double>(scored_targets(own)) / scored).backward();
    arena.collect_gradients();
    arena.zero_unwritten_gradients();
    gradients.push_back(arena.gradients().clone());
  }
  const auto& g = gradients;
  EXPECT_TRUE(oracle::identical(whole->arena().gradients(), ((g[0] + g[1]) + (g[2] + g[3])) + (g[4] + g[5])));
}

TEST_P(Leaves, TakeNoMemoryFromTheSystemAfterTheSecondStep) {
  const auto made = trainer(3, WorkSplit::batch);
  // Which worker takes a part of an update is open, so each may still meet its largest one.
  for (std::int64_t step = 0; step < 8; ++step) made->step(step, windows());
  const CpuMemory before = cpu_memory();
  for (std::int64_t step = 8; step < 12; ++step) made->step(step, windows());
  const std::uint64_t of_an_update = made->optimizer().name() == OptimizerName::muon ? std::uint64_t{3} << 20 : 0;
  EXPECT_LE(cpu_memory().held, before.held + of_an_update);
}

const auto with_muon = [](Config& config) {
  config.optimizer.name = OptimizerName::muon;
  config.training.ema = 0.9;
  config.schedule.warmup_steps = 0;  // weights that hardly move would hide what their average leaves out
};

INSTANTIATE_TEST_SUITE_P(
    Of, Leaves,
    testing::Values(Case{"Dropout", [](Config& config) { config.model.dropout = 0.2; }},
                    Case{"LargeLeaves", [](Config& config) { config.model.n_embd = 96; }},
                    Case{"MuonWithAverage", with_muon},
                    Case{"Recomputed", [](Config& config) { config.training.recompute = Recompute::block; }},
                    Case{"MaskedDocuments", [](Config& config) { config.data.documents = Documents::mask; }},
                    Case{"AlignedDocuments", [](Config& config) { config.data.documents = Documents::align; }}),
    [](const auto& of) { return of.param.name; });

TEST(LeafErrors, OfAWorkerReachTheCallerAndTheNextStepIsMade) {
  const TemporaryFolder folder;
  std::vector<Token> text(200, 7);
  text[150] = 60;  // outside the vocabulary
  const TokenSequence tokens({write_shard(folder / "tokens.bin", text)}, 50);
  Config config;
  config.model = {{.n_layer = 1, .n_head = 1, .n_embd = 8, .block_size = 16}};
  config.training.batch_size = 4;
  config.training.micro_batch_size = 1;
  config.training.max_steps = 10;
  const GptShape shape = shape_from(config.model, 50);
  Trainer trainer(config, shape, Runtime{.threads = 3, .split = WorkSplit::batch});
  initialize(trainer.arena(), shape, 1);
  const TrainingWindows windows(tokens, {.order = WindowKind::epoch, .block_size = 16});
  int refused = 0;
  for (std::int64_t step = 0; step < 6; ++step) {
    try {
      trainer.step(step, windows);
    } catch (const Error& error) {
      EXPECT_NE(error.message().find("tokens.bin"), std::string::npos) << error.message();
      ++refused;
    }
  }
  EXPECT_GE(refused, 1);
  EXPECT_LT(refused, 6);
  EXPECT_EQ(trainer.results().size(), static_cast<std::size_t>(6 - refused));
}

}  // namespace
}  // namespace inkling
