// Which lines of log.jsonl a resumed run keeps.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "tests/stderr_of.h"
#include "tests/temporary_folder.h"
#include "train/report.h"

namespace inkling {
namespace {

TEST(LogLines, OnlyWholeLinesOfStepsThatWereDoneAreKept) {
  const TemporaryFolder folder;
  const std::string kept = "{\"step\":1,\"loss\":2.5}\n{\"step\":10,\"loss\":null}\n";
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  const std::string dropped =
      "{\"step\":11,\"loss\":2.5}\n{\"step\":18446744073709551615}\n{\"step\":-1}\n{\"step\":1.0}\n" +
      ("{\"step\":2,\"x\":" + deep + "}\n") + std::string("{\"step\":2}\0x\n", 13) +
      "{\"step\":2,\"step\":3}\n[2]\n\n{\"step\":";
  const std::string log = folder.write("log.jsonl", kept + dropped);
  const Report report(log, 10, 20, 0, 0);
  EXPECT_EQ(read_file(log), kept);
}

TEST(LogLines, OfASampleHoldItWholeAndTheTerminalWhatCannotSteerIt) {
  const TemporaryFolder folder;
  const std::string log = folder.path() / "log.jsonl";
  testing::internal::CaptureStderr();
  {
    Report report(log, 0, 20, 0, 0);
    report.log_samples(3, {.samples = {{"One\n", "two \x1b[2J\"three\"\n\n"}}}, 7);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "step 3/20  sample: One\n    two �[2J\"three\"\n");
  EXPECT_EQ(
      read_file(log),
      "{\"step\":3,\"sample\":{\"prompt\":\"One\\n\",\"text\":\"two \\u001b[2J\\\"three\\\"\\n\\n\",\"seed\":7}}\n");
}

TEST(LogLines, OfAStepHaveThePaceOfStepsAloneAndItsShareOfThePeak) {
  const TemporaryFolder folder;
  const std::string log = folder.path() / "log.jsonl";
  constexpr double flops_per_token = 1e6, peak_flops = 1e9;
  testing::internal::CaptureStderr();
  const auto before = std::chrono::steady_clock::now();
  Report report(log, 0, 20, flops_per_token, peak_flops);
  {
    const Report::Pause pause(report);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  }
  report.step_done(1, 100);
  const Pace pace = report.log_step(1, {.loss = 2.5, .learning_rate = 1e-3, .grad_norm = 1.5}, 7.0);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - before;
  EXPECT_GE(pace.tokens_per_second, std::floor(100 / (taken.count() - 0.3))) << "the pause has counted";
  EXPECT_NEAR(pace.mfu, pace.tokens_per_second * flops_per_token / peak_flops, 1e-4 + flops_per_token / peak_flops);
  EXPECT_TRUE(contains(testing::internal::GetCapturedStderr(), " tokens/s  MFU "));
  const auto json = nlohmann::json::parse(read_file(log));
  EXPECT_EQ(json["mfu"], pace.mfu);
  EXPECT_EQ(json["tokens_per_second"], pace.tokens_per_second);
}

TEST(LogLines, ABarOfAResumedRunCountsTheStepsSinceItsResumption) {
  if (!terminals_exist()) GTEST_SKIP() << "no /dev/ptmx";
  const TemporaryFolder folder;
  const std::string text = stderr_of(true, true, [&] {
    Report report(folder / "log.jsonl", 3000, 4000, 0, 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(1020));
    report.step_done(3001, 100);
  });
  const std::size_t pace = text.find("3,001 steps, ");
  ASSERT_NE(pace, std::string::npos) << text;
  EXPECT_LE(std::stod(text.substr(pace + 13)), 1.0) << "one step took more than a second: " << text;
}

TEST(LogLines, OfOverfittingNameItsBeginningAndARemedy) {
  const TemporaryFolder folder;
  const std::string log = folder.path() / "log.jsonl";
  TrainingState state;
  state.step = 900;
  state.best_step = 600;
  state.best_val_loss = 1.5;
  testing::internal::CaptureStderr();
  Report(log, 0, 1000, 0, 0).log_overfitting(state);
  const std::string said = testing::internal::GetCapturedStderr();
  for (const char* part : {"step 900/1000  overfitting", "since step 600 (1.5000)", "more text, a smaller model"}) {
    EXPECT_TRUE(contains(said, part));
  }
  EXPECT_EQ(read_file(log), "{\"step\":900,\"event\":\"overfitting\",\"since\":600}\n");
}

}  // namespace
}  // namespace inkling
