#include "watch/run_log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>

#include "tests/system_calls.h"
#include "tests/temporary_folder.h"

namespace inkling {
namespace {

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
