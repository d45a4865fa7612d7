#include <gtest/gtest.h>
#include <chrono>

#include "base/files.h"
#include "base/temporary.h"
#include "checkpoint/checkpoint.h"
#include "tests/checkpoint/tiny_run.h"
#include "tests/temporary_folder.h"

namespace inkling {
namespace {

class RunFolder : public testing::Test {
 protected:
  void save(std::initializer_list<std::int64_t> steps, std::int64_t best_step) {
    run_.state.best_step = best_step;
    for (const std::int64_t step : steps) run_.save_step(place(), step);
  }

  fs::path place() const { return temporary_.path() / "run"; }
  fs::path step(std::int64_t number) const { return checkpoint_folder(place(), number); }

  std::vector<std::int64_t> steps() const {
    std::vector<std::int64_t> steps;
    for (const CheckpointEntry& entry : list_checkpoints(place())) steps.push_back(entry.step);
    return steps;
  }

  TemporaryFolder temporary_;
  TinyRun run_;
};

using Steps = std::vector<std::int64_t>;

TEST_F(RunFolder, NamesSortByStep) {
  EXPECT_EQ(checkpoint_folder("runs/a", 500), fs::path("runs/a/checkpoints/step-000500"));
  EXPECT_EQ(checkpoint_folder("runs/a", 12345678), fs::path("runs/a/checkpoints/step-12345678"));
}

TEST_F(RunFolder, ListsByNumberEvenBeyondSixDigits) {
  save({20, 1'000'000, 999'999}, 20);
  EXPECT_EQ(steps(), (Steps{20, 999'999, 1'000'000}));
}

TEST_F(RunFolder, FindsNewestBestAndAnyStep) {
  save({10, 20, 30}, 20);
  EXPECT_EQ(find_checkpoint(place(), "newest"), step(30));
  EXPECT_EQ(find_checkpoint(place(), "best"), step(20));
  EXPECT_EQ(find_checkpoint(place(), ""), step(20));
  EXPECT_EQ(find_checkpoint(place(), "10"), step(10));
  EXPECT_EQ(find_checkpoint(place(), "000010"), step(10));
  EXPECT_EQ(find_checkpoint(place(), "step-000010"), step(10));
  EXPECT_EQ(find_checkpoint(place() / "", "newest"), step(30));
}

TEST_F(RunFolder, WithoutEvaluationTheNewestIsTakenUnlessTheBestIsAskedFor) {
  save({10, 20}, -1);
  EXPECT_EQ(find_checkpoint(place(), ""), step(20));
  expect_refused([&] { find_checkpoint(place(), "best"); }, {"not been evaluated", "10, 20", "newest"});
}

TEST_F(RunFolder, BestThatIsGoneIsToldOrReplacedByTheNewest) {
  save({10, 20}, 15);
  testing::internal::CaptureStderr();
  EXPECT_EQ(find_checkpoint(place(), ""), step(20));
  EXPECT_NE(testing::internal::GetCapturedStderr().find("step 15"), std::string::npos);
  expect_refused([&] { find_checkpoint(place(), "best"); }, {"step 15", "10, 20"});
}

TEST_F(RunFolder, UnknownChoiceListsWhatIsThere) {
  save({10, 20}, 10);
  expect_refused([&] { find_checkpoint(place(), "15"); }, {"step 15", "10, 20"});
  for (const char* which : {"latest", "-1", "1e1", "10 ", "99999999999999999999"}) {
    expect_refused([&] { find_checkpoint(place(), which); }, {which, "\"newest\", \"best\"", "10, 20"});
  }
}

TEST_F(RunFolder, CheckpointFolderIsItself) {
  save({10}, 10);
  EXPECT_EQ(find_checkpoint(step(10), ""), step(10));
  expect_refused([&] { find_checkpoint(step(10), "best"); }, {"single checkpoint", "best"});
}

TEST_F(RunFolder, PlaceWithoutCheckpointsIsToldFromOneThatIsMissing) {
  expect_refused([&] { find_checkpoint(place(), ""); }, {place().string(), "no such folder"});
  fs::create_directories(place());
  expect_refused([&] { find_checkpoint(place(), ""); }, {" is neither a run's folder", "config.json"});
  fs::create_directories(place() / "mine/checkpoints");
  expect_refused([&] { find_checkpoint(place(), ""); }, {"the runs in it: " + (place() / "mine").string()});
  write_file(place() / "file", "x");
  expect_refused([&] { find_checkpoint(place() / "file", ""); }, {"neither a run's folder"});
  fs::create_directories(place() / "checkpoints");
  expect_refused([&] { find_checkpoint(place(), "newest"); },
                 {" has no checkpoint yet that can be used; train it first: inkling-train CONFIG"});
  EXPECT_EQ(steps(), Steps{});
  EXPECT_EQ(list_checkpoints(temporary_ / "nowhere").size(), 0U);
}

TEST_F(RunFolder, DamagedAndStrangeFoldersAreLeftAside) {
  save({10, 20, 30, 40, 50}, 20);
  const fs::path checkpoints = place() / "checkpoints";
  fs::resize_file(step(50) / "model.safetensors", 1000);
  fs::remove(step(40) / "optimizer.safetensors");
  fs::resize_file(step(30) / "config.yaml", 0);
  fs::create_directories(checkpoints / "step-000060");
  fs::create_directories(checkpoints / ".step-000070.tmp-1-0");
  fs::copy(step(10), checkpoints / "step-80");
  fs::copy(step(10), checkpoints / "step-000090");
  fs::copy(step(10), checkpoints / "mine");
  write_file(checkpoints / "step-000100", "a file");
  testing::internal::CaptureStderr();
  EXPECT_EQ(steps(), (Steps{10, 20}));
  const std::string warnings = testing::internal::GetCapturedStderr();
  for (const char* damaged : {"step-000030/config.yaml", "step-000040/optimizer", "step-000050/model", "step-000060",
                              "step-000090: its state.json is of step 10", "step-000100"}) {
    EXPECT_NE(warnings.find(damaged), std::string::npos) << damaged << " is not in " << warnings;
  }
  EXPECT_EQ(find_checkpoint(place(), "newest"), step(20));
  expect_refused([&] { find_checkpoint(place(), "50"); },
                 {"step 50", "10, 20", "step-000050/model.safetensors", "cut"});
}

TEST_F(RunFolder, RunWithNothingButDamageSaysWhatIsWrong) {
  save({10}, 10);
  fs::remove(step(10) / "state.json");
  expect_refused([&] { find_checkpoint(place(), "newest"); }, {"no checkpoint yet", "step-000010/state.json"});
}

// As a kill leaves it between the two renames of a file system that cannot exchange names.
TEST_F(RunFolder, ACheckpointWhoseReplacementWasCutInTwoIsListedAgain) {
  save({10, 20}, 10);
  fs::rename(step(20), replaced_name(step(20)));
  EXPECT_EQ(find_checkpoint(place(), "newest"), step(20));
  EXPECT_EQ(steps(), (Steps{10, 20}));
  EXPECT_EQ(std::distance(fs::directory_iterator(step(20).parent_path()), fs::directory_iterator()), 2);
}

TEST_F(RunFolder, PruningKeepsTheNewestAndTheBest) {
  save({10, 20, 30, 40, 50}, 20);
  prune_checkpoints(place(), 2, 20);
  EXPECT_EQ(steps(), (Steps{20, 40, 50}));
  prune_checkpoints(place(), 1, 50);
  EXPECT_EQ(steps(), Steps{50});
  prune_checkpoints(place(), 0, -1);
  EXPECT_EQ(steps(), Steps{50});
  EXPECT_EQ(std::distance(fs::directory_iterator(place() / "checkpoints"), {}), 1);
}

TEST_F(RunFolder, PruningLeavesDamagedFoldersToThePerson) {
  save({10, 20, 30}, 30);
  fs::remove(step(10) / "config.json");
  prune_checkpoints(place(), 1, 30);
  EXPECT_FALSE(fs::exists(step(20)));
  EXPECT_TRUE(fs::exists(step(10) / "model.safetensors"));
}

TEST_F(RunFolder, PruningSweepsUpWhatTheKilledLeftBehind) {
  save({10}, 10);
  const fs::path checkpoints = place() / "checkpoints";
  const auto two_minutes_ago = fs::file_time_type::clock::now() - std::chrono::minutes(2);
  for (const char* name :
       {".step-000020.tmp-99999999-0", ".step-000030.tmp-99999999-1", ".mine.tmp-1-0", ".step-000040.tmp-1-0"}) {
    fs::create_directories(checkpoints / name);
    write_file(checkpoints / name / "model.safetensors", "half");
    if (name != std::string(".step-000040.tmp-1-0")) fs::last_write_time(checkpoints / name, two_minutes_ago);
  }
  prune_checkpoints(place(), 1, 10);
  EXPECT_FALSE(fs::exists(checkpoints / ".step-000020.tmp-99999999-0"));
  EXPECT_FALSE(fs::exists(checkpoints / ".step-000030.tmp-99999999-1"));
  EXPECT_TRUE(fs::exists(checkpoints / ".mine.tmp-1-0")) << "not a checkpoint's";
  EXPECT_TRUE(fs::exists(checkpoints / ".step-000040.tmp-1-0")) << "may be growing right now";
}

}  // namespace
}  // namespace inkling
