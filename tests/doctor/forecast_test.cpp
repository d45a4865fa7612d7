// What a run takes: estimated from the machine's limits, and timed on random tokens.
#include "doctor/forecast.h"

#include <gtest/gtest.h>

#include "base/strings.h"
#include "doctor/doctor.h"
#include "runtime/cpu_memory.h"
#include "tests/doctor/invented_machine.h"
#include "train/resources.h"

namespace inkling::doctor {
namespace {

ExpectedRun expect(const std::vector<std::string>& settings) {
  const std::string yaml =
      "data: {source: none}\nmodel: {n_layer: 2, n_head: 2, n_embd: 32, block_size: 32}\n"
      "schedule: {warmup_steps: 1}\ntraining: {max_steps: 40, batch_size: 8}\nevaluation: {interval: 10, batches: "
      "2}\nruntime: {threads: 1}\n";
  return expect_run(parse_config(yaml, "test", settings), {});
}

// A machine of one thread on which arithmetic takes `flops` and memory `bytes` a second.
Speed machine(double flops, double bytes) {
  return {.dtype = "float32", .device = "cpu", .products = {{1, flops}}, .memory = bytes};
}

constexpr std::uint64_t small_cache = 1, huge_cache = std::uint64_t{1} << 40;

TEST(Estimate, IsTheArithmeticAtTheSpeedOfProductsAndTheMemoryAtItsOwn) {
  const ExpectedRun run = expect({});
  ASSERT_EQ(run.why_not, "");
  const double flops = flops_per_token(run.shape) * 8 * 32;
  const StepCosts costs = estimate_step(run, machine(1e9, 1e9), small_cache);
  EXPECT_DOUBLE_EQ(costs.arithmetic, flops / 1e9);
  EXPECT_GT(costs.passes, 0.0);
  EXPECT_GT(costs.update, 0.0);
  EXPECT_DOUBLE_EQ(estimate_step(run, machine(2e9, 1e9), small_cache).arithmetic, costs.arithmetic / 2);
  EXPECT_DOUBLE_EQ(estimate_step(run, machine(1e9, 2e9), small_cache).passes, costs.passes / 2);
  EXPECT_DOUBLE_EQ(estimate_step(run, machine(1e9, 2e9), small_cache).update, costs.update / 2);
  EXPECT_EQ(estimate_step(run, machine(1e9, 1e9), huge_cache).passes, 0.0);
}

TEST(Estimate, ThreadsThatWaitForEachOtherCountForEachOperationAndOneThreadNeverWaits) {
  Speed speed = machine(1e9, 1e9);
  speed.thread_start = 0.5;
  EXPECT_EQ(estimate_step(expect({}), speed, small_cache).starting, 0.0);
  const auto with_two = [&](const std::string& setting) {
    return estimate_step(expect({"runtime.threads=2", "runtime.split=products", setting}), speed, small_cache).starting;
  };
  EXPECT_DOUBLE_EQ(with_two("training.micro_batch_size=8"), 0.5 * (2 * 24 + 10 + 2));
  EXPECT_DOUBLE_EQ(with_two("training.micro_batch_size=4"), 0.5 * (2 * (2 * 24 + 10) + 2));
  EXPECT_DOUBLE_EQ(with_two("runtime.split=batch"), 0.5 * 3);
}

TEST(Estimate, GrowsWithTheBatchHoweverItIsCut) {
  const Speed speed = machine(1e9, 1e9);
  const StepCosts whole = estimate_step(expect({"training.micro_batch_size=8"}), speed, small_cache);
  const StepCosts cut = estimate_step(expect({"training.micro_batch_size=2"}), speed, small_cache);
  EXPECT_DOUBLE_EQ(whole.arithmetic, cut.arithmetic);
  EXPECT_DOUBLE_EQ(whole.update, cut.update);
  EXPECT_NEAR(whole.passes, cut.passes, 1e-9 * whole.passes);
}

TEST(Estimate, ARunIsItsStepsAndItsEvaluations) {
  const ExpectedRun run = expect({});
  const StepCosts step{.arithmetic = 2.0, .passes = 0.5, .update = 1.0, .starting = 0.5};
  // 40 steps of 4 s, and 4 evaluations of 2 batches on 2 splits, each 1 s.
  EXPECT_DOUBLE_EQ(estimate_run(run.config, step), 40 * 4.0 + 4 * 2 * 2 * 1.0);
}

TEST(Forecast, EveryShippedConfigurationIsKnownOrSaysWhyNot) {
  const std::vector<std::string> configs = shipped_configs(INKLING_SOURCE_DIR "/build/bin/inkling-doctor");
  EXPECT_GE(configs.size(), 10U);
  for (const std::string& path : configs) {
    const std::vector<std::string> settings = {"runtime.memory_limit_gib=100000", "runtime.device=cpu"};
    const ExpectedRun run = expect_run(load_config(path, settings), {});
    const Forecast forecast = forecast_run(run, path, machine(1e11, 1e10), {});
    if (path.ends_with("finetune_gpt2.yaml")) {
      EXPECT_TRUE(contains(forecast.why_not, "models/gpt2"));
      continue;
    }
    EXPECT_EQ(forecast.why_not, "") << path;
    EXPECT_GT(forecast.parameters, 0U) << path;
    EXPECT_GT(forecast.memory, 4 * sizeof(float) * forecast.parameters) << path;
    EXPECT_GT(forecast.step_seconds, 0.0) << path;
    EXPECT_GT(forecast.run_seconds, forecast.step_seconds * static_cast<double>(forecast.steps)) << path;
    EXPECT_EQ(forecast.name, std::filesystem::path(path).stem()) << path;
  }
}

TEST(Forecast, WhatDoesNotFitSaysSoAndFitsWithTheSettingsItNames) {
  const std::string limit = "runtime.memory_limit_gib=0.002";
  const std::vector<std::string> large = {limit, "model.block_size=1024", "training.micro_batch_size=8"};
  const ExpectedRun run = expect(large);
  EXPECT_TRUE(run.lacks_memory);
  EXPECT_TRUE(contains(run.why_not, "not enough memory"));
  ASSERT_TRUE(contains(run.fits_with, " --set training.micro_batch_size=auto --set training.recompute=block"));
  std::vector<std::string> mended = large;
  for (std::string rest = run.fits_with; rest.starts_with(" --set ");) {
    rest.erase(0, 7);
    mended.push_back(rest.substr(0, rest.find(' ')));
    rest.erase(0, mended.back().size());
  }
  EXPECT_EQ(expect(mended).why_not, "");
  EXPECT_EQ(expect({"runtime.memory_limit_gib=0.00001"}).fits_with, "");
}

TEST(Forecast, AnUnusableSettingIsAReasonAndNoEnd) {
  EXPECT_TRUE(contains(expect({"runtime.kernels=fused", "runtime.dtype=bfloat16"}).why_not, "float32 only"));
  EXPECT_TRUE(contains(expect({"model.init_from=/not/there"}).why_not, "/not/there"));
}

TEST(Measure, TimesStepsAndFewerWindowsWhereAStepWouldTakeTooLong) {
  const ExpectedRun run = expect({});
  Forecast forecast = forecast_run(run, "small.yaml", machine(1e12, 1e12), {});
  measure_run(run, forecast, 0.01);
  EXPECT_EQ(forecast.measured_windows, 8);
  EXPECT_GT(*forecast.measured_fastest, 0.0);
  EXPECT_LE(*forecast.measured_fastest, *forecast.measured_step);
  EXPECT_LE(*forecast.measured_step, *forecast.measured_slowest);
  EXPECT_NEAR(*forecast.measured_run / forecast.run_seconds, *forecast.measured_step / forecast.step_seconds, 1e-9);
  Forecast slow = forecast_run(run, "small.yaml", machine(1.0, 1.0), {});
  measure_run(run, slow, 0.01);
  EXPECT_EQ(slow.measured_windows, 1);
}

TEST(RandomTokens, LeaveNoFileBehind) {
  const TemporaryFolder folder;
  const char* const before = std::getenv("TMPDIR");
  const std::string kept = before == nullptr ? "" : before;
  setenv("TMPDIR", folder.path().c_str(), 1);
  const TokenSequence tokens = random_tokens(65, 1000);
  const bool is_empty = std::filesystem::is_empty(folder.path());
  before == nullptr ? unsetenv("TMPDIR") : setenv("TMPDIR", kept.c_str(), 1);
  EXPECT_TRUE(is_empty);
  EXPECT_EQ(tokens.count(), 1000U);
  std::vector<Token> last(1);
  tokens.read(999, last);
  EXPECT_LT(last[0], 65U);
}

}  // namespace
}  // namespace inkling::doctor
