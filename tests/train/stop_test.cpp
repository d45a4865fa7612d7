// What a run keeps that is asked to end, or killed, in the middle of an evaluation or of samples; and what asks it.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/paths.h"
#include "checkpoint/checkpoint.h"
#include "tests/train/training_folder.h"

namespace inkling {
namespace {

class Stop : public TrainingFolder {
 protected:
  void SetUp() override {
    TrainingFolder::SetUp();
    write_config(R"(sampling: {interval: 10, max_tokens: 5}
)");
  }

  // Settings with which one evaluation, or one sample, takes far longer than a test waits. They change no number of the
  // training, and a later start has others.
  static std::vector<std::string> endless(std::vector<std::string> settings) {
    settings.insert(settings.end(), {"evaluation.batches=1000000", "sampling.max_tokens=1000000"});
    return settings;
  }

  // A text of which all windows are evaluated in minutes.
  void write_long_text() const {
    std::string text;
    for (int line = 0; line < 20'000; ++line)
      text += str("Line ", line * 37 % 101, " of a text that nobody learns by heart.\n");
    write_file(folder / "text.txt", text);
  }

  static std::vector<std::string> flags(const std::string& out, const std::vector<std::string>& settings) {
    std::vector<std::string> words = {"--out", "runs/" + out, "--set", "runtime.threads=1"};
    for (const std::string& setting : settings) words.insert(words.end(), {"--set", setting});
    return words;
  }

  Outcome finish(const std::string& out, const std::vector<std::string>& settings) const {
    return train(flags(out, settings));
  }

  Process start(const std::string& out, const std::vector<std::string>& settings) const {
    std::vector<std::string> words = flags(out, settings);
    words.insert(words.begin(), "run.yaml");
    return Process("inkling-train", words, folder.path());
  }

  fs::path checkpoint(const std::string& out, std::int64_t step) const {
    return checkpoint_folder(folder / ("runs/" + out), step);
  }

  // Waits until a file is there, or the process has ended; returns whether it is.
  static bool has_written(const Process& process, const fs::path& path) {
    while (!fs::exists(path) && process.runs()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return fs::exists(path);
  }

  void expect_as_if_uninterrupted(const std::vector<std::string>& settings, std::int64_t last,
                                  const std::string& out = "parts") const {
    const Outcome outcome = finish(out, settings);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    ASSERT_EQ(finish("whole", settings).code, 0);
    expect_same_run("whole", out, padded(static_cast<std::uint64_t>(last), 6));
    const TrainingState whole = load_state(checkpoint("whole", last)), parts = load_state(checkpoint(out, last));
    EXPECT_FALSE(parts.reports_due);
    EXPECT_EQ(parts.best_step, whole.best_step);
    EXPECT_EQ(parts.best_val_loss, whole.best_val_loss);
    EXPECT_EQ(parts.train_loss_at_best, whole.train_loss_at_best);
    EXPECT_EQ(parts.evaluations_since_best, whole.evaluations_since_best);
    EXPECT_EQ(names_in(folder / ("runs/" + out + "/checkpoints")), names_in(folder / "runs/whole/checkpoints"));
    check_checkpoint(checkpoint(out, last));
    EXPECT_NE(finish(out, settings).err.find("this run is finished"), std::string::npos);
  }

  std::int64_t evaluations_at(std::int64_t step, const std::string& out = "parts") const {
    const auto lines = log("runs/" + out);
    return std::count_if(lines.begin(), lines.end(),
                         [&](const nlohmann::json& line) { return line["step"] == step && line.contains("val_loss"); });
  }

  // How often a tag stands in the event files of a run.
  std::size_t count_tag(const std::string& out, const std::string& tag) const {
    std::size_t count = 0;
    const fs::path run = folder / ("runs/" + out);
    for (const std::string& name : names_in(run)) {
      if (!name.starts_with("events.out")) continue;
      const std::string bytes = read_file(run / name);
      for (auto at = bytes.find(tag); at != std::string::npos; at = bytes.find(tag, at + 1)) ++count;
    }
    return count;
  }
};

TEST_F(Stop, KilledInAnEvaluationARunLosesNoStepOfACheckpointThatIsDue) {
  write_long_text();
  const std::vector<std::string> settings = {"training.max_steps=24", "checkpoint.interval=10", "training.ema=0.5"};
  {
    const Process process = start("parts", endless(settings));
    ASSERT_TRUE(has_written(process, checkpoint("parts", 10)));
    process.send(SIGKILL);
    process.wait();
  }
  EXPECT_TRUE(load_state(checkpoint("parts", 10)).reports_due);
  EXPECT_EQ(evaluations_at(10), 0);
  expect_as_if_uninterrupted(settings, 24);
}

TEST_F(Stop, KilledInItsLastEvaluationARunLosesNothing) {
  write_long_text();
  const std::vector<std::string> settings = {"training.max_steps=5", "schedule.decay_steps=5"};
  {
    const Process process = start("parts", endless(settings));
    ASSERT_TRUE(has_written(process, checkpoint("parts", 5)));
    process.send(SIGKILL);
    process.wait();
  }
  EXPECT_TRUE(load_state(checkpoint("parts", 5)).reports_due);
  expect_as_if_uninterrupted(settings, 5);
}

TEST_F(Stop, ASignalLeavesAnEvaluationThatTheNextStartMakes) {
  write_long_text();
  const std::vector<std::string> settings = {"training.max_steps=24", "checkpoint.interval=100",
                                             "logging.tensorboard=true"};
  for (const std::int64_t step : {10, 20, 24}) {
    const Process process = start("parts", endless(settings));
    ASSERT_TRUE(process.has_said(str("step ", step, "/24  loss")));
    process.send(SIGTERM);
    const Outcome outcome = process.wait();
    EXPECT_EQ(outcome.code, 75) << outcome.err;
    EXPECT_TRUE(contains(outcome.err, str("stopped by a signal after step ", step, " and saved")));
    EXPECT_EQ(evaluations_at(step), 0);
    EXPECT_TRUE(load_state(checkpoint("parts", step)).reports_due);
    if (step == 24) break;
    const Outcome next = finish("parts", {"training.max_steps=24", "training.max_hours=1e-9", "checkpoint.interval=100",
                                          "logging.tensorboard=true"});
    EXPECT_EQ(next.code, 75) << next.err;
    EXPECT_EQ(evaluations_at(step), 1) << "made first";
  }
  expect_as_if_uninterrupted(settings, 24);
  for (const char* tag : {"loss/validation", "loss/train_evaluation", "gradient_norm/all", "sample/1"}) {
    EXPECT_EQ(count_tag("parts", tag), count_tag("whole", tag)) << tag;
  }
}

TEST_F(Stop, KilledInASampleARunMakesTheReportsOfThatStepAgain) {
  const std::vector<std::string> settings = {"training.max_steps=12",    "evaluation.interval=6",
                                             "checkpoint.interval=6",    "training.stop_when.patience=1",
                                             "logging.tensorboard=true", "sampling.interval=6"};
  {
    std::vector<std::string> slow = settings;
    slow.push_back("sampling.max_tokens=1000000");
    const Process process = start("parts", slow);
    ASSERT_TRUE(process.has_said("step 6/12  evaluation"));
    process.send(SIGKILL);
    process.wait();
  }
  EXPECT_TRUE(load_state(checkpoint("parts", 6)).reports_due);
  EXPECT_EQ(load_state(checkpoint("parts", 6)).best_step, -1) << "the state is that of before its reports";
  expect_as_if_uninterrupted(settings, 12);
  for (const char* tag : {"loss/validation", "loss/train_evaluation", "gradient_norm/all", "sample/1"}) {
    EXPECT_EQ(count_tag("parts", tag), count_tag("whole", tag)) << tag;
  }
}

TEST_F(Stop, AClosedTerminalAndASchedulersWarningSaveHoweverOftenTheyCome) {
  for (const int signal : {SIGHUP, SIGUSR1, SIGUSR2}) {
    const std::string out = str("signal-", signal);
    const Process process = start(out, {"training.max_steps=100000"});
    ASSERT_TRUE(process.has_said("step 2/"));
    process.send(signal);
    ASSERT_TRUE(process.has_said("finishing the step and saving")) << signal;
    process.send(signal);   // bash sends SIGHUP to its jobs when it has got one itself
    process.send(SIGTERM);  // Slurm sends it at the end of the time
    const Outcome outcome = process.wait();
    EXPECT_EQ(outcome.code, 75) << signal << outcome.err;
    EXPECT_TRUE(contains(outcome.err, "stopped by a signal after step "));
    EXPECT_FALSE(names_in(folder / ("runs/" + out + "/checkpoints")).empty());
  }
}

// timeout(1) sends its SIGTERM to the program and then to the group that it belongs to.
TEST_F(Stop, ASignalThatComesTwiceAtOnceIsOneRequest) {
  const Process process = start("run", {"training.max_steps=100000"});
  ASSERT_TRUE(process.has_said("step 2/"));
  for (int i = 0; i < 5; ++i) process.send(SIGTERM);
  const Outcome outcome = process.wait();
  EXPECT_EQ(outcome.code, 75) << outcome.err;
  EXPECT_FALSE(names_in(folder / "runs/run/checkpoints").empty());
}

TEST_F(Stop, ASignalThatTheParentIgnoresStaysIgnored) {
  constexpr std::array signals{SIGINT, SIGTERM, SIGHUP, SIGUSR1};
  for (const int signal : signals) ::signal(signal, SIG_IGN);
  const Process process =
      start("run", {"training.max_steps=1000", "evaluation.interval=1000", "checkpoint.interval=1000"});
  for (const int signal : signals) ::signal(signal, SIG_DFL);
  ASSERT_TRUE(process.has_said("step 2/"));
  for (const int signal : signals) process.send(signal);
  EXPECT_TRUE(process.has_said("step 1000/1000  loss"));
  const Outcome outcome = process.wait();
  EXPECT_EQ(outcome.code, 0) << outcome.err;
}

// `inkling-train … 2>&1 | tee log`: Ctrl-C ends tee too, and what is said then has no reader.
TEST_F(Stop, AReaderThatHasGoneDoesNotEndARun) {
  run_command(folder.path(), "inkling-train run.yaml 2>&1 | sed '/^step 1\\//q'");
  EXPECT_TRUE(fs::exists(checkpoint("run", 40)));
}

TEST_F(Stop, MaxHoursSaveAndEachStartGetsAStepFurther) {
  const std::vector<std::string> settings = {"training.max_steps=7", "evaluation.interval=3", "schedule.decay_steps=7"};
  std::vector<std::string> hasty = settings;
  hasty.push_back("training.max_hours=1e-9");
  Outcome outcome;
  int starts = 0;
  for (; starts == 0 || (outcome.code == 75 && starts < 20); ++starts) outcome = finish("parts", hasty);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_GE(starts, 7) << "a step a start";
  expect_as_if_uninterrupted(settings, 7);
  outcome = finish("fresh", hasty);
  EXPECT_EQ(outcome.code, 75);
  EXPECT_TRUE(contains(outcome.err, "stopped by training.max_hours (1e-09) after step 1 and saved; run the same"));
  expect_refused(finish("fresh", {"training.max_hours=-1"}), {"training.max_hours"});
}

// A checkpoint is all there while its last evaluation is made, and the run goes on with that, also to more steps.
TEST_F(Stop, MoreStepsMayBeAskedForWhileTheLastEvaluationIsDue) {
  const std::vector<std::string> settings = {"training.max_steps=12", "schedule.decay_steps=40",
                                             "training.max_hours=1e-9", "evaluation.interval=12"};
  for (int step = 1; step <= 12; ++step) ASSERT_EQ(finish("parts", settings).code, 75) << step;
  EXPECT_TRUE(load_state(checkpoint("parts", 12)).reports_due);
  ASSERT_EQ(finish("parts", {"training.max_steps=40", "evaluation.interval=12"}).code, 0);
  ASSERT_EQ(finish("whole", {"training.max_steps=40", "evaluation.interval=12"}).code, 0);
  expect_same_run("whole", "parts", "000040");
}

}  // namespace
}  // namespace inkling
