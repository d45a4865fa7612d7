// Whatever interrupts a save, the checkpoint before it stays, and nothing half written is taken for a whole one.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <thread>

#include "base/files.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/model_weights.h"
#include "checkpoint/optimizer_file.h"
#include "tests/checkpoint/tiny_run.h"
#include "tests/system_calls.h"
#include "tests/temporary_folder.h"

namespace inkling {
namespace {

// Runs `body` in a process of its own. The tensors here are far too small for LibTorch to start threads, so a fork does
// no harm.
pid_t fork_process(const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  try {
    body();
  } catch (...) {
    ::_exit(1);
  }
  ::_exit(0);
}

int wait_for(pid_t child) {
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  return names;
}

// A tokenizer that does something while it is saved: in the middle of a checkpoint.
class Saboteur : public Tokenizer {
 public:
  explicit Saboteur(std::function<void()> deed) : deed_(std::move(deed)) {}

  std::string kind() const override { return "saboteur"; }
  std::uint64_t vocab_size() const override { return 1; }
  std::optional<Token> separator() const override { return std::nullopt; }
  std::vector<AddedToken> special_tokens() const override { return {}; }
  void check(std::string_view) const override {}
  void encode_part(std::string_view, bool, std::vector<Token>&) const override {}
  std::string decode(Token) const override { return ""; }
  void save(const std::filesystem::path&) const override { deed_(); }
  std::string hash() const override { return ""; }

 private:
  std::function<void()> deed_;
};

std::vector<at::Tensor> marked_tensors(const TinyRun& run) {
  std::vector<at::Tensor> all;
  for (const Parameter& parameter : run.arena.parameters()) all.push_back(parameter.part_of(run.arena.values()));
  for (const OptimizerState& state : run.optimizer.states()) all.push_back(state.value);
  return all;
}

// Every value of step n is n, so that a mixture of two steps shows.
void save_marked(TinyRun& run, const fs::path& folder, std::int64_t step, const Tokenizer* tokenizer = nullptr) {
  for (const at::Tensor& tensor : marked_tensors(run)) tensor.fill_(static_cast<double>(step));
  run.state.step = step;
  run.state.best_step = 1;
  run.optimizer.set_steps(step);
  run.save(folder, tokenizer);
}

// Loads a checkpoint that save_marked() wrote and returns its step.
std::int64_t load_marked(const fs::path& folder) {
  TinyRun run;
  const std::int64_t step = load_state(folder).step;
  load_weights(folder, read_shape(folder), run.arena);
  load_optimizer(folder, run.arena, run.optimizer);
  EXPECT_EQ(run.optimizer.steps(), step);
  for (const at::Tensor& tensor : marked_tensors(run)) EXPECT_TRUE(tensor.eq(step).all().item<bool>());
  return step;
}

TEST(Crash, KilledInTheMiddleOfASaveThePreviousCheckpointIsFound) {
  const TemporaryFolder folder;
  TinyRun run;
  save_marked(run, checkpoint_folder(folder.path(), 10), 10);
  const Saboteur killer([] { ::kill(::getpid(), SIGKILL); });
  const pid_t child = fork_process([&] { save_marked(run, checkpoint_folder(folder.path(), 20), 20, &killer); });
  ASSERT_TRUE(WIFSIGNALED(wait_for(child)));
  EXPECT_EQ(names_in(folder / "checkpoints").size(), 2U) << "it was killed in the middle, with half a folder there";
  EXPECT_EQ(load_marked(find_checkpoint(folder.path(), "newest")), 10);
  save_marked(run, checkpoint_folder(folder.path(), 20), 20);
  EXPECT_EQ(load_marked(find_checkpoint(folder.path(), "newest")), 20);
}

// Lets `save_on` save for ever in a process of its own, and kills that at moments spread over the first saves.
void kill_at_many_moments(const std::function<void(TinyRun&, const fs::path&, std::int64_t)>& save_on,
                          const std::function<void(const fs::path&)>& check) {
  constexpr int rounds = 20;
  for (int round = 0; round < rounds; ++round) {
    const TemporaryFolder folder;
    TinyRun run;
    const auto start = std::chrono::steady_clock::now();
    save_on(run, folder.path(), 1);
    const auto duration = std::chrono::steady_clock::now() - start;
    const pid_t child = fork_process([&] {
      for (std::int64_t step = 2;; ++step) save_on(run, folder.path(), step);
    });
    std::this_thread::sleep_for(duration * 2 * (round + 1) / rounds);
    ::kill(child, SIGKILL);
    ASSERT_TRUE(WIFSIGNALED(wait_for(child)));
    check(folder.path());
  }
}

TEST(Crash, KilledAtAnyMomentTheNewestCheckpointIsWhole) {
  kill_at_many_moments(
      [](TinyRun& run, const fs::path& folder, std::int64_t step) {
        save_marked(run, checkpoint_folder(folder, step), step);
        prune_checkpoints(folder, run.state, 1);
      },
      [](const fs::path& folder) {
        const fs::path newest = find_checkpoint(folder, "newest");
        EXPECT_EQ(checkpoint_folder(folder, load_marked(newest)), newest);
      });
}

TEST(Crash, KilledWhileTheSameStepIsSavedAgainTheOldOrTheNewIsThere) {
  kill_at_many_moments(
      [](TinyRun& run, const fs::path& folder, std::int64_t step) { save_marked(run, folder / "step", step); },
      [](const fs::path& folder) { EXPECT_GE(load_marked(folder / "step"), 1); });
}

TEST(Crash, KilledWhileTheStateIsReplacedTheOldOrTheNewIsThereAndTheRestAsItWas) {
  const TemporaryFolder folder;
  TinyRun run;
  run.state.reports_due = true;
  save_marked(run, folder / "step", 3);
  const TrainingState before = run.state;
  run.state.reports_due = false;
  run.state.best_step = 3;
  int old = 0, replaced = 0;
  const auto check = [&](int) {
    check_checkpoint(folder / "step");
    EXPECT_EQ(load_marked(folder / "step"), 3);
    const TrainingState state = load_state(folder / "step");
    EXPECT_EQ(state.best_step, state.reports_due ? 1 : 3);
    ++(state.reports_due ? old : replaced);
  };
  const int killed =
      kill_at_every_step([&] { save_state(folder / "step", before); }, [&] { save_state(folder / "step", run.state); },
                         check, [](std::string_view) { return 0; });
  EXPECT_GT(old, 0);
  EXPECT_GT(replaced, 0);
  EXPECT_EQ(old + replaced, killed + 1);
}

// Checks what a failed save leaves: an Error environment, the old checkpoint untouched, and nothing else in the folder.
void expect_nothing_half_there(const std::function<void()>& save, const fs::path& checkpoints, const fs::path& old) {
  const std::optional<Error> error = error_of(save);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::environment) << error->message();
  EXPECT_NE(error->message().find(checkpoints.string()), std::string::npos) << error->message();
  EXPECT_EQ(names_in(checkpoints), std::vector<std::string>{old.filename()});
  EXPECT_EQ(load_marked(old), 1);
}

TEST(Crash, FileThatMayNotGrowLeavesNothingHalfThere) {
  const TemporaryFolder folder;
  const fs::path old = checkpoint_folder(folder.path(), 1);
  TinyRun run;
  save_marked(run, old, 1);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, SIG_IGN);
  const std::uintmax_t largest = fs::file_size(old / "optimizer.safetensors");
  for (const std::uintmax_t size :
       {std::uintmax_t{0}, std::uintmax_t{100}, std::uintmax_t{900}, std::uintmax_t{5000}, largest / 2, largest - 1}) {
    const rlimit limit = {static_cast<rlim_t>(size), before.rlim_max};
    expect_nothing_half_there(
        [&] {
          ::setrlimit(RLIMIT_FSIZE, &limit);
          try {
            save_marked(run, old, 2);
          } catch (...) {
            ::setrlimit(RLIMIT_FSIZE, &before);
            throw;
          }
        },
        old.parent_path(), old);
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, SIG_DFL);
}

TEST(Crash, FullDiskLeavesNothingHalfThere) {
  const TemporaryFolder folder;
  const fs::path disk = folder / "disk";
  fs::create_directories(disk);
  TinyRun run;
  save_marked(run, folder / "measure", 1);
  std::uintmax_t bytes = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder / "measure")) {
    bytes += (entry.file_size() + 4095) / 4096 * 4096;
  }
  const std::string size = "size=" + std::to_string(bytes + bytes / 2);
  if (::mount("inkling-test", disk.c_str(), "tmpfs", 0, size.c_str()) != 0) {
    GTEST_SKIP() << "a disk to fill can be mounted by root alone";
  }
  const fs::path old = checkpoint_folder(disk, 1);
  save_marked(run, old, 1);
  expect_nothing_half_there([&] { save_marked(run, checkpoint_folder(disk, 2), 2); }, old.parent_path(), old);
  EXPECT_EQ(::umount2(disk.c_str(), MNT_DETACH), 0);
}

TEST(Crash, FolderThatMayNotBeWrittenIsNamed) {
  const TemporaryFolder folder;
  const fs::path old = checkpoint_folder(folder.path(), 1);
  TinyRun run;
  save_marked(run, old, 1);
  ::chmod(old.parent_path().c_str(), 0555);
  const bool root = ::geteuid() == 0;
  ASSERT_EQ(::seteuid(root ? 65534 : ::geteuid()), 0);  // 65534 is nobody: root may write everywhere
  expect_nothing_half_there([&] { save_marked(run, checkpoint_folder(folder.path(), 2), 2); }, old.parent_path(), old);
  ASSERT_EQ(::seteuid(root ? 0 : ::geteuid()), 0);
  ::chmod(old.parent_path().c_str(), 0755);
}

TEST(Crash, FileInPlaceOfTheFolderIsNamed) {
  const TemporaryFolder folder;
  write_file(folder / "checkpoints", "");
  const std::optional<Error> error = error_of([&] { TinyRun().save_step(folder.path(), 1); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::environment);
  EXPECT_NE(error->message().find((folder / "checkpoints").string()), std::string::npos) << error->message();
}

}  // namespace
}  // namespace inkling
