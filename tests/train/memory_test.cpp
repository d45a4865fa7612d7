// How many bytes training holds is said before it starts, and again, counted, when it is done.
#include <gtest/gtest.h>

#include <cmath>
#include <regex>
#include <string>
#include <vector>

#include "base/error.h"
#include "model/parameters.h"
#include "tests/train/training_folder.h"
#include "train/plan.h"
#include "train/resources.h"

namespace inkling {
namespace {

// The size behind `words`, in MiB.
double mebibytes_after(const std::string& text, const std::string& words) {
  std::smatch match;
  if (!std::regex_search(text, match, std::regex(words + "([0-9.]+) (KiB|MiB|GiB)"))) {
    ADD_FAILURE() << "no size behind \"" << words << "\" in:\n" << text;
    return std::nan("");
  }
  return std::stod(match[1]) * (match[2] == "GiB" ? 1024.0 : match[2] == "MiB" ? 1.0 : 1.0 / 1024.0);
}

TEST(SplitBatch, FollowsTheModelsSizeAndNotTheThreads) {
  const auto split = [](std::int64_t layers, int threads) {
    Config config;
    config.model = {{.n_layer = layers, .n_head = 8, .n_embd = 512, .block_size = 64}};
    config.training.batch_size = 64;
    config.training.micro_batch_size = 4;
    return split_batch(config, shape_from(config.model, 65), Runtime{.threads = threads}, INT64_MAX).split;
  };
  for (const int threads : {1, 2, 8, 16}) {
    EXPECT_EQ(split(4, threads), WorkSplit::batch) << threads;
    EXPECT_EQ(split(8, threads), WorkSplit::products) << threads;  // five gradients of 100 MB for one thread
  }
  EXPECT_EQ(split(4, 17), WorkSplit::products);  // fewer micro-batches than threads
}

TEST(SplitBatch, GivesAttentionOnAGpuNoMoreWindowsThanAGridHolds) {
  Config config;
  config.model = {{.n_layer = 1, .n_head = 1, .n_embd = 8, .block_size = 2}};
  config.training.batch_size = 100'000;
  const auto windows = [&](at::Device device) {
    const Runtime runtime = {.device = device, .kernels = Kernels::reference};
    return split_batch(config, shape_from(config.model, 65), runtime, INT64_MAX).micro_batch_size;
  };
  EXPECT_EQ(windows(at::Device("cuda:0")), 50'000);
  config.training.micro_batch_size = 100'000;
  try {
    windows(at::Device("cuda:0"));
    FAIL() << "a grid of 100,000 blocks was allowed";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("training.micro_batch_size 100000"), std::string::npos) << error.message();
  }
  EXPECT_EQ(windows(at::kCPU), 100'000);
}

// On a GPU, where what was planned did not fit when it was tried.
TEST(MicroBatch, ComesDownToHalfOrLessAndDividesTheBatch) {
  RunPlan plan;
  plan.config.training.batch_size = 60;
  plan.config.training.micro_batch_size = 60;
  std::vector<std::int64_t> sizes;
  while (lower_micro_batch_size(plan)) sizes.push_back(*plan.config.training.micro_batch_size);
  EXPECT_EQ(sizes, (std::vector<std::int64_t>{30, 15, 6, 3, 1}));
  const std::string said = describe_lowered(plan, 60);
  EXPECT_EQ(said, "training.micro_batch_size: auto is 1, because the GPU's memory is too small for 60");
  plan.resume.emplace();
  EXPECT_NE(describe_lowered(plan, 60).find("not bit-identical"), std::string::npos);
}

TEST(MicroBatch, ThatAPersonWroteStays) {
  RunPlan plan;
  plan.asked.training.micro_batch_size = 4;
  plan.config = plan.asked;
  EXPECT_FALSE(lower_micro_batch_size(plan));
  EXPECT_EQ(*plan.config.training.micro_batch_size, 4);
}

using ThreadsWithoutWork = TrainingFolder;

TEST_F(ThreadsWithoutWork, AreToldOfWithTheSettingToChange) {
  const auto says = [&](const char* sizes, const char* words) {
    const std::string said = train({"--dry-run --set runtime.threads=3 --set runtime.split=batch", sizes}).err;
    EXPECT_NE(said.find(words), std::string::npos) << said;
  };
  says("--set training.batch_size=8 --set training.micro_batch_size=4",
       "; 1 of 3 has nothing to do: training.micro_batch_size is too large for so many");
  says("--set training.batch_size=1 --set training.micro_batch_size=1",
       "; 2 of 3 have nothing to do: training.batch_size is too small for so many");
}

class Memory : public TrainingFolder, public testing::WithParamInterface<const char*> {};

TEST_P(Memory, IsWithin15PercentOfWhatWasSaidBefore) {
  const Outcome outcome =
      train({"--set training.max_steps=3 --set schedule.decay_steps=0 --set schedule.warmup_steps=1",
             "--set model.n_embd=128 --set model.n_head=4 --set training.batch_size=24", GetParam()});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const double said = mebibytes_after(outcome.err, "training holds about ");
  const double held = mebibytes_after(outcome.err, "of which training held ");
  EXPECT_LT(std::abs(held / said - 1.0), 0.15) << "said " << said << " MiB, held " << held << " MiB";
}

class MemoryLimit : public TrainingFolder {
 protected:
  // A step of 24 windows holds 19 MiB with each product split over the threads, of which the weights take 3.4.
  const std::string shape =
      "--set training.max_steps=6 --set model.n_embd=128 --set model.n_head=4 --set model.block_size=32 "
      "--set training.batch_size=24 --set evaluation.interval=3 ";
  nlohmann::json state(const std::string& run) const {
    return nlohmann::json::parse(checkpoint_file(run, "000006", "state.json"));
  }
  std::int64_t micro_batch_size(const std::string& run) const { return state(run).at("micro_batch_size"); }
  std::string split(const std::string& run) const { return state(run).at("runtime").at("split"); }
};

TEST_F(MemoryLimit, AutoTakesTheMostWindowsThatFitAndHoldsNoMore) {
  const Outcome outcome = train({shape, "--set training.micro_batch_size=auto --set runtime.memory_limit_gib=0.01"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_LT(mebibytes_after(outcome.err, "of which training held "), 0.01 * 1024 * 1.15);
  const std::int64_t size = micro_batch_size("run");
  EXPECT_GT(size, 1);
  EXPECT_LT(size, 24);
  EXPECT_NE(outcome.err.find(str("a batch is ", 24 / size, " times ", size, " windows")), std::string::npos);
  const Outcome larger = train({shape, "--out runs/larger --set runtime.memory_limit_gib=0.01 --dry-run",
                                str("--set training.micro_batch_size=", size == 8 ? 12 : 2 * size)});
  expect_refused(larger, {"not enough memory: 10.2 MiB are allowed", "training holds about"}, 3);
}

TEST_F(MemoryLimit, WhereAllFitsAutoSharesTheBatchOutOverTheThreads) {
  const std::string automatic = shape + "--set training.micro_batch_size=auto --set schedule.warmup_steps=2 ";
  ASSERT_EQ(train({automatic, "--out runs/two"}).code, 0);
  EXPECT_EQ(micro_batch_size("two"), 12);
  EXPECT_EQ(split("two"), "batch");
  ASSERT_EQ(train({automatic, "--out runs/five --set runtime.threads=5"}).code, 0);
  EXPECT_EQ(micro_batch_size("five"), 3);  // 8 leaves, of which a thread takes at most 2; 12 leaves of 2 are no faster
  ASSERT_EQ(train({automatic, "--out runs/products --set runtime.split=products"}).code, 0);
  EXPECT_EQ(micro_batch_size("products"), 24);
  const Outcome few = train({automatic, "--out runs/few --set training.batch_size=1"});
  ASSERT_EQ(few.code, 0);
  EXPECT_EQ(split("few"), "products");
  EXPECT_NE(few.err.find("each product is split over the threads"), std::string::npos) << few.err;
}

TEST_F(MemoryLimit, AResumedRunKeepsWhatAutoMeant) {
  const std::string settings = shape + "--set training.micro_batch_size=auto --set schedule.warmup_steps=2 ";
  const std::string limit = "--set runtime.memory_limit_gib=0.01 ";
  ASSERT_EQ(train({settings, limit, "--out runs/whole"}).code, 0);
  ASSERT_EQ(train({settings, limit, "--out runs/cut --set training.max_steps=3"}).code, 0);
  ASSERT_EQ(train({settings, "--out runs/cut"}).code, 0);  // with all the memory there is
  EXPECT_EQ(micro_batch_size("cut"), micro_batch_size("whole"));
  EXPECT_TRUE(checkpoint_file("cut", "000006", "model.safetensors") ==
              checkpoint_file("whole", "000006", "model.safetensors"));
}

TEST_F(MemoryLimit, AResumedRunGoesOnWithFewerWindowsWhereMemoryHasShrunk) {
  const std::string settings = shape + "--set training.micro_batch_size=auto --set schedule.warmup_steps=2 ";
  ASSERT_EQ(train({settings, "--set training.max_steps=3"}).code, 0);
  const Outcome outcome = train({settings, "--set runtime.memory_limit_gib=0.0105"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("not bit-identical"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("runtime.split: "), std::string::npos) << outcome.err;
  EXPECT_LT(micro_batch_size("run"), 12);
}

TEST_F(MemoryLimit, ARefusalSaysWhatHalvesTheNeed) {
  const std::string limit = "--dry-run --set runtime.memory_limit_gib=0.001 ";
  expect_refused(train({shape, limit, "--set training.micro_batch_size=12 --set runtime.split=batch"}),
                 {"runtime.split: products with training.micro_batch_size: 1 has one gradient for all threads"}, 3);
  expect_refused(train({shape, limit, "--set training.micro_batch_size=12 --set runtime.split=products"}),
                 {"training.micro_batch_size: 6 instead of 12 halves all but the weights"}, 3);
  expect_refused(train({shape, limit, "--set training.micro_batch_size=auto"}), {"training.recompute: block"}, 3);
  expect_refused(train({shape, limit, "--set training.micro_batch_size=1 --set training.recompute=block",
                        "--set runtime.split=products"}),
                 {"Half of model.block_size"}, 3);
}

TEST_F(MemoryLimit, RecomputingGeluIsRefusedWhereTheKernelsAreNotOurs) {
  expect_refused(train({shape, "--set training.recompute=gelu --set runtime.kernels=reference"}),
                 {"training.recompute: gelu is for the fused kernels"});
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, Memory,
    testing::Values("--set model.dropout=0 --set training.micro_batch_size=24 --set model.block_size=128",
                    "--set model.dropout=0 --set training.micro_batch_size=12 --set model.n_layer=6",
                    "--set model.dropout=0.2 --set training.micro_batch_size=24 --set model.block_size=128",
                    "--set model.dropout=0 --set model.n_embd=512 --set model.n_layer=4",
                    "--set data.source=" INKLING_SOURCE_DIR
                    "/data/fables.grammar --set data.stories=500 --set data.tokenizer.kind=char --set model.dropout=0 "
                    "--set model.block_size=256 --set training.micro_batch_size=24 --set evaluation.batches=4",
                    "--set data.documents=align --set data.source=" INKLING_SOURCE_DIR
                    "/data/fables.grammar --set data.stories=500 --set data.tokenizer.kind=char --set model.dropout=0 "
                    "--set model.block_size=256 --set training.micro_batch_size=24 --set evaluation.batches=4",
                    "--set data.documents=mask --set data.source=" INKLING_SOURCE_DIR
                    "/data/fables.grammar --set data.stories=500 --set data.tokenizer.kind=char --set model.dropout=0 "
                    "--set training.micro_batch_size=24 --set evaluation.batches=4 --set runtime.kernels=reference",
                    "--set data.documents=mask --set data.source=" INKLING_SOURCE_DIR
                    "/data/fables.grammar --set data.stories=500 --set data.tokenizer.kind=char --set model.n_head=1 "
                    "--set model.dropout=0.1 --set training.micro_batch_size=24 --set evaluation.batches=4 "
                    "--set runtime.kernels=reference",
                    "--set model.dropout=0.1 --set training.micro_batch_size=24 --set training.recompute=gelu",
                    "--set model.dropout=0 --set training.micro_batch_size=24 --set training.recompute=block "
                    "--set model.n_layer=6 --set model.block_size=128",
                    "--set model.dropout=0 --set training.micro_batch_size=24 --set training.recompute=block "
                    "--set model.n_layer=6 --set model.block_size=128 --set runtime.kernels=reference",
                    "--set model.dropout=0 --set training.micro_batch_size=24 --set runtime.kernels=reference",
                    "--set model.dropout=0.2 --set training.micro_batch_size=24 --set runtime.kernels=reference",
                    "--set model.n_embd=256 --set model.dropout=0 --set training.micro_batch_size=4 "
                    "--set optimizer.name=muon --set runtime.kernels=reference --set evaluation.batches=1",
                    "--set 'model.attention=[full, local 20]' --set model.dropout=0 --set model.n_head=8 "
                    "--set training.micro_batch_size=24 --set model.block_size=128 --set runtime.kernels=reference",
                    "--set 'model.attention=[local 20, dilated 8 4]' --set model.dropout=0 "
                    "--set training.micro_batch_size=24 --set model.block_size=128",
                    "--set optimizer.name=muon --set training.ema=0.99 --set model.dropout=0 "
                    "--set training.micro_batch_size=12 --set model.n_embd=512 --set model.n_layer=4",
                    "--set model.norm=rmsnorm --set model.position=rope --set model.activation=swiglu "
                    "--set model.dropout=0.1 --set training.micro_batch_size=24 --set model.block_size=128",
                    "--set model.position=alibi --set model.dropout=0.1 --set training.micro_batch_size=24 "
                    "--set model.block_size=128",
                    "--set model.position=alibi --set model.dropout=0 --set training.micro_batch_size=24 "
                    "--set runtime.kernels=reference",
                    "--set model.conv=4 --set model.embedding_norm=true --set model.dropout=0 "
                    "--set training.micro_batch_size=24 --set model.block_size=128",
                    "--set model.conv=4 --set model.embedding_norm=true --set model.dropout=0 "
                    "--set training.micro_batch_size=24 --set runtime.kernels=reference",
                    "--set model.norm=rmsnorm --set model.position=rope --set model.activation=geglu "
                    "--set model.qk_norm=true --set model.n_kv_head=2 --set model.tie_embeddings=false "
                    "--set model.n_inner=640 --set model.head_size=48 --set model.logit_softcap=20 "
                    "--set model.dropout=0 --set training.micro_batch_size=24 --set model.block_size=128",
                    "--set model.position=none --set model.activation=swiglu --set training.recompute=gelu "
                    "--set model.dropout=0 --set training.micro_batch_size=24 --set model.block_size=128",
                    "--set model.norm=rmsnorm --set model.position=rope --set model.activation=swiglu "
                    "--set model.n_kv_head=1 --set model.dropout=0 --set training.recompute=block "
                    "--set model.n_layer=6 --set training.micro_batch_size=24 --set model.block_size=128",
                    "--set model.norm=rmsnorm --set model.position=rope --set model.activation=swiglu "
                    "--set model.qk_norm=true --set model.n_kv_head=2 --set model.dropout=0 "
                    "--set training.micro_batch_size=24 --set runtime.kernels=reference",
                    "--set model.n_inner=32 --set model.head_size=256 --set model.position=rope "
                    "--set model.qk_norm=true --set model.dropout=0 --set training.micro_batch_size=24 "
                    "--set model.block_size=128"));

// Newest, best and the one that is written, as far as they are made.
TEST(RunFolder, HoldsAsManyCheckpointsAtOnceAsAreMadeAndKept) {
  Config config;
  config.checkpoint = {.interval = 100, .keep = 2};
  config.evaluation.interval = 1000;
  config.logging.interval = 1'000'000;
  const GptShape shape = {.n_layer = 1, .n_head = 2, .n_embd = 64, .vocab_size = 100};
  const std::uint64_t one = checkpoint_bytes(config, shape);
  const auto count = static_cast<std::uint64_t>(ParameterLayout(gpt_parameters(shape)).parameter_count());
  EXPECT_GT(one, 3 * 4 * count) << "weights and two moments in float32";
  EXPECT_EQ(run_folder_bytes(config, shape, 0), one);
  EXPECT_EQ(run_folder_bytes(config, shape, 100), 2 * one);
  EXPECT_EQ(run_folder_bytes(config, shape, 900), 4 * one);
  EXPECT_EQ(run_folder_bytes(config, shape, 900, 3 * one), one) << "of a run that goes on";
  EXPECT_EQ(run_folder_bytes(config, shape, 900, 9 * one), one) << "old ones are removed when the new one is there";
  config.training.ema = 0.99;
  EXPECT_EQ(checkpoint_bytes(config, shape), one + 4 * count);
}

}  // namespace
}  // namespace inkling
