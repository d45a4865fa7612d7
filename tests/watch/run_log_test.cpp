// The log of a run while it grows, and what its files say together.
#include "watch/run_log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "tests/system_calls.h"
#include "tests/temporary_folder.h"

namespace inkling {
namespace {

void append(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::app | std::ios::binary) << text;
}

TEST(RunLog, EveryKindOfLineIsReadAndUnknownOnesArePassedOver) {
  RunLog log;
  log.add(
      R"({"step":1,"loss":7.5,"learning_rate":0.001,"grad_norm":2.5,"tokens_per_second":100.0,"seconds":0.5,"new":[1]})");
  log.add(R"({"step":2,"loss":null,"grad_norm":null})");
  log.add(R"({"step":2,"train_loss":3.5,"val_loss":3.25,"ema_val_loss":3.125,"best_possible_loss":0.75})");
  log.add(R"({"step":4,"val_loss":3.5})");
  log.add(R"({"step":4,"sample":{"prompt":"Once","text":" upon","seed":1}})");
  log.add(R"({"step":4,"event":"overfitting","since":2})");
  log.add(R"({"step":5,"something":"else"})");
  ASSERT_EQ(log.steps.size(), 2u);
  EXPECT_EQ(log.steps[0].loss, 7.5);
  EXPECT_EQ(log.steps[0].learning_rate, 0.001);
  EXPECT_EQ(log.steps[0].seconds, 0.5);
  EXPECT_TRUE(std::isnan(log.steps[1].loss));
  EXPECT_TRUE(std::isnan(log.steps[1].seconds));
  ASSERT_EQ(log.evaluations.size(), 2u);
  EXPECT_EQ(log.evaluations[0].best_possible, 0.75);
  EXPECT_EQ(log.evaluations[0].of_average, 3.125);
  EXPECT_TRUE(std::isnan(log.evaluations[1].of_average));
  EXPECT_EQ(log.best_evaluation()->step, 2);
  EXPECT_EQ(log.sample->text, " upon");
  EXPECT_EQ(log.events.at(0).best_step, 2);
  EXPECT_EQ(log.last_step(), 4);
  EXPECT_FALSE(log.has_stopped_early());
  EXPECT_EQ(log.damaged, 0u);
}

TEST(RunLog, ARunThatWentOnAfterAnEarlyStopHasNotStopped) {
  RunLog log;
  log.add("{\"step\":20,\"event\":\"stopped_early\",\"best_step\":10,\"best_val_loss\":3}");
  EXPECT_TRUE(log.has_stopped_early());
  log.add("{\"step\":30,\"loss\":2}");
  EXPECT_FALSE(log.has_stopped_early());
}

TEST(RunLog, LinesThatAreNoneAreCountedAndDoNoHarm) {
  RunLog log;
  for (const char* line :
       {"{\"step\":1,\"lo", "[1]", "7", "{}", "{\"step\":-1,\"loss\":1}", "{\"step\":1e300,\"loss\":1}",
        "{\"step\":\"1\",\"loss\":1}", "\xff\xfe", "{\"step\":99999999999999999999,\"loss\":1}"}) {
    log.add(line);
  }
  EXPECT_EQ(log.damaged, 9u);
  EXPECT_TRUE(log.steps.empty());
  EXPECT_TRUE(rc::check([](const std::string& bytes) {
    RunLog any;
    any.add(bytes);
    any.add("{\"step\":1," + bytes + "}");
  }));
}

TEST(LogFollower, ALineIsReadOnceItHasItsEnd) {
  const TemporaryFolder folder;
  RunLog log;
  LogFollower follower(folder / "log.jsonl");
  EXPECT_FALSE(follower.update(log)) << "no file yet";
  append(folder / "log.jsonl", "{\"step\":1,\"loss\":4}\n{\"step\":2,");
  EXPECT_TRUE(follower.update(log));
  EXPECT_EQ(log.steps.size(), 1u);
  EXPECT_FALSE(follower.update(log)) << "nothing new";
  append(folder / "log.jsonl", "\"loss\":3}\n\n{");
  EXPECT_TRUE(follower.update(log));
  ASSERT_EQ(log.steps.size(), 2u);
  EXPECT_EQ(log.steps[1].loss, 3);
  EXPECT_EQ(log.damaged, 0u);
  EXPECT_GT(follower.last_written(), 1e9);
}

TEST(LogFollower, AReplacedOrShortenedLogIsReadAnew) {
  const TemporaryFolder folder;
  const std::string first = "{\"step\":1,\"loss\":4}\n";
  folder.write("log.jsonl", first + "{\"step\":2,\"loss\":3}\n{\"step\":3,\"loss\":2}\n");
  RunLog log;
  LogFollower follower(folder / "log.jsonl");
  follower.update(log);
  ASSERT_EQ(log.last_step(), 3);
  // A resume writes a shorter file under another name and moves it here; it may have outgrown the old one by now.
  folder.write("log.jsonl",
               first + "{\"step\":2,\"loss\":3.5}\n{\"step\":3,\"loss\":2.5}\n{\"step\":4,\"loss\":2.25}\n");
  EXPECT_TRUE(follower.update(log));
  ASSERT_EQ(log.steps.size(), 4u);
  EXPECT_EQ(log.steps[1].loss, 3.5);
  std::filesystem::resize_file(folder / "log.jsonl", first.size());
  EXPECT_TRUE(follower.update(log));
  EXPECT_EQ(log.steps.size(), 1u);
  std::filesystem::remove(folder / "log.jsonl");
  EXPECT_FALSE(follower.update(log));
  EXPECT_EQ(log.steps.size(), 1u) << "what was read stays";
}

TEST(LogFollower, WhatIsNoFileIsRefused) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "log.jsonl");
  RunLog log;
  LogFollower follower(folder / "log.jsonl");
  EXPECT_TRUE(contains(input_error([&] { follower.update(log); }), "log.jsonl is not a file"));
}

const std::string settings = "training:\n  max_steps: 20\n  batch_size: 2\n";
const std::string ten_steps = "{\"step\":10,\"loss\":4,\"seconds\":5}\n";

// The lock of a run, held as the process that trains holds it.
class HeldLock {
 public:
  explicit HeldLock(const TemporaryFolder& folder)
      : descriptor_(
            ::open(folder.write("run/.lock", "process 4711 on host since today\n").c_str(), O_RDWR | O_CLOEXEC)) {
    EXPECT_EQ(::flock(descriptor_, LOCK_EX | LOCK_NB), 0);
  }
  ~HeldLock() { ::close(descriptor_); }
  HeldLock(const HeldLock&) = delete;
  HeldLock& operator=(const HeldLock&) = delete;

  void empty() const { EXPECT_EQ(::ftruncate(descriptor_, 0), 0); }

 private:
  int descriptor_;
};

RunState state_now(RunFiles& files) {
  files.update();
  return files.view().state;
}

TEST(RunFiles, TheLockTellsARunThatTrainsFromOneThatEndedAndOneThatCrashed) {
  const TemporaryFolder folder;
  folder.write("run/config.yaml", settings);
  folder.write("run/log.jsonl", ten_steps);
  RunFiles files(folder / "run/");
  EXPECT_EQ(state_now(files), RunState::stopped) << "no lock at all";
  {
    const HeldLock lock(folder);
    EXPECT_EQ(state_now(files), RunState::running);
    EXPECT_EQ(files.view().holder, "process 4711 on host since today");
    EXPECT_EQ(files.view().max_steps, 20);
  }
  EXPECT_EQ(state_now(files), RunState::broken) << "nobody has emptied the file";
  {
    const HeldLock lock(folder);
    EXPECT_EQ(state_now(files), RunState::running) << "resumed";
    lock.empty();
  }
  EXPECT_EQ(state_now(files), RunState::stopped);
  folder.write("run/log.jsonl", ten_steps + "{\"step\":20,\"loss\":3}\n");
  folder.write("run/checkpoints/step-000010/state.json", "");
  EXPECT_EQ(state_now(files), RunState::stopped) << "its last steps were not saved";
  folder.write("run/log.jsonl", ten_steps + "{\"step\":20,\"loss\":3}\n{\"step\":20,\"val_loss\":3}\n");
  folder.write("run/checkpoints/step-000020/state.json", "{\"reports_due\": true}");
  EXPECT_EQ(state_now(files), RunState::stopped) << "its last samples are still to be made";
  folder.write("run/checkpoints/step-000020/state.json", "{\"reports_due\": false}");
  EXPECT_EQ(state_now(files), RunState::finished);
  folder.write("run/config.yaml", "training:\n  max_steps: 30\n");
  EXPECT_EQ(state_now(files), RunState::stopped) << "max_steps was raised";
  folder.write("run/log.jsonl", "{\"step\":20,\"event\":\"stopped_early\",\"best_step\":10,\"best_val_loss\":3}\n");
  EXPECT_EQ(state_now(files), RunState::finished);
}

TEST(RunFiles, LookingNeverKeepsARunFromItsLock) {
  const TemporaryFolder folder;
  folder.write("run/.lock", "process 4711 on host since today\n");
  int calls = 0;
  const SystemCalls watch([&](std::string_view call, const std::string&) {
    if (call == "flock") ++calls;
    return 0;
  });
  const auto calls_for = [&](RunFiles& files, RunState expected) {
    calls = 0;
    EXPECT_EQ(state_now(files), expected);
    return calls;
  };
  RunFiles files(folder / "run");
  EXPECT_EQ(calls_for(files, RunState::broken), 2) << "one asks whether there are locks, one tries it";
  EXPECT_EQ(calls_for(files, RunState::broken), 1) << "a lock that was free is not tried again";
  {
    const HeldLock lock(folder);  // expects to get it at once
    EXPECT_EQ(calls_for(files, RunState::running), 2);
    lock.empty();
    EXPECT_EQ(calls_for(files, RunState::stopped), 1) << "nor is that of an empty file";
  }
}

TEST(RunFiles, WithoutLocksALogThatGrowsMeansARunThatTrains) {
  const TemporaryFolder folder;
  folder.write("run/.lock", "");
  folder.write("run/log.jsonl", ten_steps);
  RunFiles files(folder / "run");
  EXPECT_EQ(state_now(files), RunState::stopped);
  const SystemCalls watch([](std::string_view call, const std::string&) { return call == "flock" ? ENOLCK : 0; });
  EXPECT_EQ(state_now(files), RunState::running);
  const auto before = std::filesystem::last_write_time(folder / "run/log.jsonl") - std::chrono::hours(1);
  std::filesystem::last_write_time(folder / "run/log.jsonl", before);
  EXPECT_EQ(state_now(files), RunState::stopped);
}

TEST(RunFiles, CheckpointsAreListedAndWhatIsNoSettingCounts) {
  const TemporaryFolder folder;
  folder.write("run/checkpoints/step-001200/state.json", "");
  folder.write("run/checkpoints/step-000600/state.json", "");
  folder.write("run/checkpoints/.step-001800.tmp-1-1/state.json", "");
  folder.write("run/config.yaml", "from_the_future: 1\ntraining: {max_steps: 7}\n");
  RunFiles files(folder / "run");
  EXPECT_TRUE(files.update());
  EXPECT_EQ(files.view().checkpoints, (std::vector<std::int64_t>{600, 1200}));
  EXPECT_EQ(files.view().max_steps, 7);
  EXPECT_FALSE(files.update()) << "nothing has changed";
  for (const char* broken : {"training: [", "training: 5", "training:\n  max_steps: many\n", "\xff", ""}) {
    folder.write("run/config.yaml", broken);
    EXPECT_TRUE(files.update());
    EXPECT_EQ(files.view().max_steps, std::nullopt) << broken;
  }
}

TEST(RunFiles, WhatIsNoRunIsRefusedWithWhatIsThere) {
  const TemporaryFolder folder;
  folder.write("runs/fables/log.jsonl", "");
  folder.write("notes.txt", "");
  const auto refusal = [&](const std::string& name) { return input_error([&] { RunFiles files(folder / name); }); };
  EXPECT_TRUE(contains(refusal("runs/fable"), "there is no such folder; did you mean"));
  EXPECT_TRUE(contains(refusal("runs"), "the runs in it: "));
  EXPECT_TRUE(contains(refusal("notes.txt"), "is a file"));
}

TEST(RunFiles, WithoutANameTheOneRunThatTrainsIsFound) {
  const TemporaryFolder folder;
  EXPECT_TRUE(contains(input_error([&] { find_running(folder.path()); }), "there is no run below"));
  folder.write("done/log.jsonl", ten_steps);
  EXPECT_TRUE(contains(input_error([&] { find_running(folder.path()); }), "trains now; name one"));
  {
    const HeldLock lock(folder);
    EXPECT_EQ(find_running(folder.path()), folder / "run");
  }
}

}  // namespace
}  // namespace inkling
