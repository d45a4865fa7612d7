// The step and the evaluation on a GPU, recorded and repeated, against those on the CPU. (Emulated: see
// tests/oracle/emulated_library.h.)
#include "train/trainer.h"

#include <gtest/gtest.h>

#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>

#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>

#include "base/strings.h"
#include "generate/decoder.h"
#include "tests/cuda_first.h"
#include "tests/model/small_model.h"
#include "tests/needs_gpu.h"
#include "tests/oracle/emulated_library.h"
#include "tests/oracle/rounding.h"
#include "tests/oracle/tensors.h"
#include "tests/temporary_folder.h"
#include "tests/token_shard.h"

namespace inkling {
namespace {

// On a GPU ("cuda"), or on what stands in for one ("cpu").
class RecordedStep : public testing::TestWithParam<const char*> {
 protected:
  RecordedStep() {
    tokens_.emplace(write_tokens("tokens.bin", 500));
    take_documents(Documents::join);
    config_.model = {{.n_layer = 2, .n_head = 2, .n_embd = 24, .block_size = 16}, 0.1};
    config_.training.batch_size = 6;
    config_.training.micro_batch_size = 2;
    config_.training.max_steps = 10;
    config_.schedule.warmup_steps = 2;
    config_.optimizer.learning_rate = 1e-2;
    config_.optimizer.grad_clip = 0.5;
  }

  void SetUp() override {
    if (!emulated()) INKLING_NEEDS_GPU(why_no_cuda());
  }
  bool emulated() const { return std::string_view(GetParam()) == "cpu"; }

  // Every thirtieth token or so begins one.
  void take_documents(Documents documents) {
    separator_.reset();
    if (documents != Documents::join) separator_ = 7;
    windows_.emplace(
        *tokens_,
        WindowSettings{.order = WindowKind::random, .block_size = 16, .documents = documents, .separator = separator_});
  }

  TokenSequence write_tokens(const std::string& name, std::uint64_t count) const {
    std::vector<Token> drawn;
    for (std::uint64_t i = 0; i < count; ++i) drawn.push_back(static_cast<Token>(random_below(1, i, 30)));
    return TokenSequence({write_shard(folder_ / name, drawn)}, 30);
  }

  // From here on trainers compute on the GPU.
  void go_to_gpu() {
    if (emulated()) {
      gpu_.emplace();
      return;
    }
    runtime_ = resolve_runtime(
        {.device = DeviceChoice{.cuda = true}, .dtype = Dtype::float32, .threads = 2, .kernels = Kernels::fused});
  }

  std::unique_ptr<Trainer> trainer() const {
    const GptShape shape = shape_from(config_.model, 30);
    auto made = std::make_unique<Trainer>(config_, shape, runtime_, separator_);
    initialize(made->arena(), shape, 1);
    return made;
  }
  void step(Trainer& trainer, std::int64_t number) const { trainer.step(number, *windows_); }

  // The same as Trainer::estimate_loss(), one range at a time.
  double loss_of_each_range(Trainer& trainer, const TokenSequence& tokens, const std::vector<Row>& rows) const {
    const at::NoGradGuard no_gradient;
    const at::Device device = trainer.arena().values().device();
    double sum = 0;
    for (const Row& row : rows) {
      for (const TokenRange& range : row) {
        const Batch window = empty_batch(1, config_.model.block_size, at::kCPU, separator_.has_value());
        const Row alone = {range};
        fill_batch(window, tokens, std::span(&alone, 1), separator_);
        TrainingPass pass;
        if (separator_) pass.positions = window.positions.to(device);
        const at::Tensor loss = trainer.model().loss(window.tokens.to(device), window.targets.to(device), pass);
        sum += loss.item<double>() * static_cast<double>(range.count);
      }
    }
    return sum / static_cast<double>(scored_targets(rows));
  }

  static void expect_near(const std::vector<StepResult>& results, const std::vector<StepResult>& expected) {
    ASSERT_EQ(results.size(), expected.size());
    for (std::size_t i = 0; i < results.size(); ++i) {
      EXPECT_NEAR(results[i].loss, expected[i].loss, 2e-5) << "step " << i;
      EXPECT_NEAR(results[i].grad_norm, expected[i].grad_norm, 1e-4 * expected[i].grad_norm) << "step " << i;
      EXPECT_EQ(results[i].learning_rate, expected[i].learning_rate);
      EXPECT_FALSE(results[i].skipped);
    }
  }

  void expect_what_the_cpu_learns() {
    const auto on_cpu_owner = trainer();
    Trainer& on_cpu = *on_cpu_owner;
    for (std::int64_t number = 0; number < 8; ++number) step(on_cpu, number);
    const auto expected = on_cpu.results();

    go_to_gpu();
    const auto on_gpu_owner = trainer();
    Trainer& on_gpu = *on_gpu_owner;
    for (std::int64_t number = 0; number < 5; ++number) step(on_gpu, number);
    auto results = on_gpu.results();
    ASSERT_EQ(results.size(), 5u);
    for (std::int64_t number = 5; number < 8; ++number) step(on_gpu, number);
    for (const StepResult& later : on_gpu.results()) results.push_back(later);
    ASSERT_EQ(results.size(), 8u);
    EXPECT_TRUE(on_gpu.results().empty());
    expect_near(results, expected);
    EXPECT_GT(expected[0].grad_norm, config_.optimizer.grad_clip);  // clipping is part of the comparison
    EXPECT_LT(oracle::error(on_gpu.arena().values(), on_cpu.arena().values()), 1e-3);
    EXPECT_EQ(on_gpu.optimizer().steps(), 8);
  }

  const TemporaryFolder folder_;
  Runtime runtime_ = {.threads = 2};
  std::optional<oracle::OtherBackend> gpu_;
  std::optional<TokenSequence> tokens_;
  std::optional<Token> separator_;
  std::optional<TrainingWindows> windows_;
  Config config_;
};

INSTANTIATE_TEST_SUITE_P(Emulated, RecordedStep, testing::Values("cpu"));
INSTANTIATE_TEST_SUITE_P(Cuda, RecordedStep, testing::Values("cuda"));

TEST_P(RecordedStep, OfEverySwitchLearnsWhatTheCpuLearns) {
  config_.model = {test::modern_shape, 0.1};
  config_.model.block_size = 16;
  expect_what_the_cpu_learns();
}

// What no kernel computes is composed of LibTorch's operations, none of which may ask the host.
TEST_P(RecordedStep, OfComposedAttentionLearnsWhatTheCpuLearns) {
  config_.model = {test::modern_shape, 0.1};
  config_.model.block_size = 16;
  config_.model.position = Position::alibi;
  expect_what_the_cpu_learns();
}

TEST_P(RecordedStep, ByMuonLearnsWhatTheCpuLearns) {
  config_.optimizer.name = OptimizerName::muon;
  expect_what_the_cpu_learns();
}

// Three micro-batches: the first is one graph, the others are repetitions of another.
TEST_P(RecordedStep, LearnsWhatTheStepOnTheCpuLearns) { expect_what_the_cpu_learns(); }

TEST_P(RecordedStep, OfDocumentsThatAreKeptApartLearnsWhatTheCpuLearns) {
  config_.model = {test::modern_shape, 0.1};
  config_.model.block_size = 16;
  take_documents(Documents::mask);
  expect_what_the_cpu_learns();
}

TEST_P(RecordedStep, OfPackedDocumentsLearnsWhatTheCpuLearns) {
  take_documents(Documents::align);
  expect_what_the_cpu_learns();
}

TEST_P(RecordedStep, WithTheWholeBatchAtOnceToo) {
  config_.training.micro_batch_size = config_.training.batch_size;
  expect_what_the_cpu_learns();
}

// CPU and GPU share the code of a step, so it is compared with itself here: what three micro-batches add up to is what
// the batch has at once. (Without dropout, whose numbers a micro-batch has for itself.)
TEST_P(RecordedStep, MicroBatchesAddUpToTheWholeBatch) {
  config_.model.dropout = 0;
  const auto after_four_steps = [&](std::int64_t micro_batch_size) {
    config_.training.micro_batch_size = micro_batch_size;
    auto made = trainer();
    for (std::int64_t number = 0; number < 4; ++number) step(*made, number);
    return made;
  };
  const auto compare = [&] {
    const auto whole = after_four_steps(6), added_up = after_four_steps(2);
    expect_near(added_up->results(), whole->results());
    EXPECT_LT(oracle::error(added_up->arena().values(), whole->arena().values()), 1e-3);
  };
  for (const Kernels kernels : {Kernels::fused, Kernels::reference}) {
    for (const Documents documents : {Documents::join, Documents::align}) {
      SCOPED_TRACE(str("on the CPU, ", word_of(kernels), ", ", word_of(documents)));
      runtime_.kernels = kernels;
      take_documents(documents);
      compare();
    }
  }
  runtime_.kernels = Kernels::fused;
  go_to_gpu();
  compare();
}

TEST_P(RecordedStep, MakingItChangesNeitherWeightsNorMoments) {
  go_to_gpu();
  const auto made = trainer();
  const at::Tensor before = made->arena().values().clone();
  made->estimate_loss(*tokens_);
  EXPECT_TRUE(oracle::identical(made->arena().values(), before));
  for (const OptimizerState& state : made->optimizer().states())
    EXPECT_EQ(state.value.count_nonzero().item<int64_t>(), 0);
  EXPECT_EQ(made->optimizer().steps(), 0);
  EXPECT_TRUE(made->results().empty());
}

TEST_P(RecordedStep, AStepWhoseGradientIsNotFiniteIsSkippedAndNotCounted) {
  go_to_gpu();
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

TEST_P(RecordedStep, KeepsTheAverageOfWhatEveryStepLeaves) {
  constexpr double beta = 0.75;
  config_.training.ema = beta;
  go_to_gpu();
  const auto made = trainer();
  ASSERT_NE(made->average(), nullptr);
  made->average()->begin();
  at::Tensor expected = made->arena().values().to(at::kDouble);
  for (std::int64_t number = 0; number < 5; ++number) {
    step(*made, number);
    expected = beta * expected + (1.0 - beta) * made->arena().values().to(at::kDouble);
  }
  // Three roundings a step, of which later steps take away a quarter each: those of four steps are left.
  EXPECT_LT(oracle::error(made->average()->values(), expected), oracle::rounding_error(3 * 4));
  EXPECT_GT(oracle::error(made->average()->values(), made->arena().values()), oracle::rounding_error(3 * 4));
}

// Whole micro-batches are a graph's; of five windows one is left.
TEST_P(RecordedStep, EvaluatesAsTheCpuDoesBetweenStepsThatItLeavesAsTheyAre) {
  take_documents(Documents::mask);
  const TokenSequence five_windows = write_tokens("few.bin", 16 + 1 + 4);
  config_.evaluation.batches = 3;
  const auto losses = [&] {
    const auto made = trainer();
    std::vector<double> all;
    for (std::int64_t number = 0; number < 3; ++number) {
      step(*made, number);
      all.push_back(made->estimate_loss(*tokens_));
      all.push_back(made->estimate_loss(five_windows));
      const std::vector<Row> windows = evaluation_rows(five_windows.count(), config_.model.block_size, 18);
      EXPECT_EQ(windows.size(), 5u);
      EXPECT_NEAR(all.back(), loss_of_each_range(*made, five_windows, windows), 1e-5);
    }
    for (const StepResult& result : made->results()) all.push_back(result.loss);
    return all;
  };
  const std::vector<double> on_cpu = losses();
  go_to_gpu();
  const std::vector<double> on_gpu = losses();
  ASSERT_EQ(on_gpu.size(), 9u);
  for (std::size_t i = 0; i < 9; ++i) EXPECT_NEAR(on_gpu[i], on_cpu[i], 2e-5) << i;
}

TEST_P(RecordedStep, EvaluatesPackedDocumentsAsEachByItself) {
  take_documents(Documents::align);
  const TokenSequence few = write_tokens("few.bin", 100);
  const PackedWindows packed(few, *separator_, 16);
  config_.evaluation.batches = 3;
  const std::vector<Row> all = evaluation_rows(packed, 18), some = evaluation_rows(packed, 3);
  EXPECT_EQ(scored_targets(all), 99u);
  EXPECT_EQ(all.size() % 2, 1u);  // so that not every micro-batch is whole
  EXPECT_NE(std::find_if(all.begin(), all.end(), [](const Row& row) { return row.size() > 1; }), all.end());
  EXPECT_EQ(some, std::vector({all[0], all[all.size() / 3], all[all.size() * 2 / 3]}));
  for (const bool on_gpu : {false, true}) {
    if (on_gpu) go_to_gpu();
    const auto made = trainer();
    for (std::int64_t number = 0; number < 3; ++number) {
      step(*made, number);
      EXPECT_NEAR(made->estimate_loss(few, &packed), loss_of_each_range(*made, few, all), 1e-5) << on_gpu << number;
    }
  }
}

// The decoder is made anew for each sample, as in a run.
TEST_P(RecordedStep, SamplingBetweenStepsChangesNoBit) {
  go_to_gpu();
  const auto weights_after = [&](bool samples) {
    const auto made = trainer();
    for (std::int64_t number = 0; number < 5; ++number) {
      step(*made, number);
      if (!samples) continue;
      const auto decoder = make_decoder(made->model(), runtime_, {.vocab_size = 30, .max_rows = 2, .longest = 40});
      std::vector<std::vector<Token>> texts = {{1, 2, 3}, {4}};
      for (int i = 0; i < 20; ++i) {  // past the block
        const std::vector<Token> drawn = decoder->next(std::vector<GrowingText>{{texts[0], 1}, {texts[1], 2}});
        for (std::size_t row = 0; row < texts.size(); ++row) texts[row].push_back(drawn[row]);
      }
      EXPECT_EQ(made->norms().size(), 3u);
    }
    return made->arena().values().clone();
  };
  EXPECT_TRUE(oracle::identical(weights_after(true), weights_after(false)));
}

std::int64_t numbers_read = 0;
std::unique_ptr<at::ObserverContext> count_numbers_read(const at::RecordFunction& function) {
  if (std::string_view(function.name()) == "aten::_local_scalar_dense") ++numbers_read;
  return nullptr;
}

std::int64_t passes_recorded = 0, passes_queued = 0;
std::function<void()> count_passes(int, const std::function<void()>& work) {
  ++passes_recorded;
  return [work] {
    ++passes_queued;
    work();
  };
}

// What does not fit shows before there is anything to lose, and nothing of it is left.
TEST(Rehearsal, RecordsAllPassesAndChangesNothing) {
  Backend backend = oracle::emulated_backend();
  backend.record = count_passes;
  const oracle::OtherBackend gpu(backend);
  const TemporaryFolder folder;
  const TokenSequence tokens({write_shard(folder / "tokens.bin", std::vector<Token>(200, 7))}, 30);
  Config config;
  config.model = {{.n_layer = 1, .n_head = 1, .n_embd = 8, .block_size = 8}};
  config.model.dropout = 0.1;
  config.training.batch_size = 4;
  config.training.micro_batch_size = 2;
  config.training.max_steps = 3;
  const GptShape shape = shape_from(config.model, 30);
  const TrainingWindows windows(tokens, {.order = WindowKind::random, .block_size = 8});
  const auto weights_after = [&](bool rehearses) {
    Trainer trainer(config, shape, Runtime{.threads = 2});
    passes_recorded = 0;
    if (rehearses) trainer.rehearse();
    EXPECT_EQ(passes_recorded, rehearses ? 3 : 0);  // the first micro-batch, the others, the evaluation
    initialize(trainer.arena(), shape, 1);
    for (std::int64_t step = 0; step < 3; ++step) trainer.step(step, windows);
    EXPECT_EQ(trainer.results().size(), 3u);
    return trainer.arena().values().clone();
  };
  EXPECT_TRUE(oracle::identical(weights_after(true), weights_after(false)));
}

// Reading a number waits for everything that is queued.
TEST(RecordedEvaluation, QueuesARecordingForEachBatchAndReadsOneNumber) {
  Backend backend = oracle::emulated_backend();
  backend.record = count_passes;
  passes_recorded = 0;
  const oracle::OtherBackend gpu(backend);
  const TemporaryFolder folder;
  const TokenSequence tokens({write_shard(folder / "tokens.bin", std::vector<Token>(200, 7))}, 30);
  Config config;
  config.model = {{.n_layer = 1, .n_head = 1, .n_embd = 8, .block_size = 8}};
  config.training.batch_size = 4;
  config.training.micro_batch_size = 2;
  config.training.max_steps = 2;
  config.evaluation.batches = 5;
  Trainer trainer(config, shape_from(config.model, 30), Runtime{.threads = 2});
  initialize(trainer.arena(), shape_from(config.model, 30), 1);
  const TrainingWindows windows(tokens, {.order = WindowKind::random, .block_size = 8});
  for (std::int64_t step = 0; step < 2; ++step) trainer.step(step, windows);
  passes_queued = numbers_read = 0;
  const auto counting = at::addThreadLocalCallback(at::RecordFunctionCallback(count_numbers_read));
  trainer.estimate_loss(tokens);
  at::removeCallback(counting);
  EXPECT_EQ(passes_recorded, 4);  // the first micro-batch, the others, the update, the evaluation
  EXPECT_EQ(passes_queued, 10);
  EXPECT_EQ(numbers_read, 1);
}

}  // namespace
}  // namespace inkling
