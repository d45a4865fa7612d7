#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>

#include "base/files.h"
#include "base/paths.h"
#include "checkpoint/checkpoint.h"
#include "tests/checkpoint/tiny_run.h"
#include "tests/temporary_folder.h"

namespace inkling {
namespace {

class RunFolder : public testing::Test {
 protected:
  void save(std::initializer_list<std::int64_t> steps, std::int64_t best_step) {
    for (const std::int64_t step : steps) {
      run_.state.best_step = std::min(best_step, step);
      run_.save_step(place(), step);
    }
  }

  fs::path place() const { return temporary_.path() / "run"; }
  fs::path step(std::int64_t number) const { return checkpoint_folder(place(), number); }

  // Of the folders that are there.
  std::vector<std::int64_t> steps() const {
    std::vector<std::int64_t> steps;
    for (const fs::directory_entry& entry : fs::directory_iterator(place() / "checkpoints")) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("step-")) steps.push_back(std::stoll(name.substr(5)));
    }
    std::sort(steps.begin(), steps.end());
    return steps;
  }

  // What the run warns of meanwhile.
  static std::string warnings_of(const std::function<void()>& action) {
    testing::internal::CaptureStderr();
    action();
    return testing::internal::GetCapturedStderr();
  }

  void prune(std::int64_t step, std::int64_t best_step, std::int64_t keep) const {
    TrainingState state;
    state.step = step;
    state.best_step = best_step;
    prune_checkpoints(place(), state, keep);
  }

  TemporaryFolder temporary_;
  TinyRun run_;
};

using Steps = std::vector<std::int64_t>;

TEST_F(RunFolder, NamesSortByStep) {
  EXPECT_EQ(checkpoint_folder("runs/a", 500), fs::path("runs/a/checkpoints/step-000500"));
  EXPECT_EQ(checkpoint_folder("runs/a", 12345678), fs::path("runs/a/checkpoints/step-12345678"));
}

TEST_F(RunFolder, NewestIsTheHighestNumberEvenBeyondSixDigits) {
  save({20, 1'000'000, 999'999}, 20);
  EXPECT_EQ(newest_checkpoint(place()), step(1'000'000));
  expect_refused([&] { find_checkpoint(place(), "7"); }, {"20, 999999, 1000000"});
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
  expect_refused([&] { find_checkpoint(place().string() + "x/", ""); }, {"did you mean " + place().string() + "?"});
  fs::create_directories(place() / "mine/checkpoints");
  expect_refused([&] { find_checkpoint(place(), ""); }, {"the runs in it: " + (place() / "mine").string()});
  write_file(place() / "file", "x");
  expect_refused([&] { find_checkpoint(place() / "file", ""); }, {"neither a run's folder"});
  fs::create_directories(place() / "checkpoints");
  expect_refused([&] { find_checkpoint(place(), "newest"); },
                 {" has no checkpoint yet that can be used; train it first: inkling-train CONFIG"});
  EXPECT_FALSE(newest_checkpoint(place()));
  EXPECT_FALSE(newest_checkpoint(temporary_ / "nowhere"));
}

TEST_F(RunFolder, NanoGptsCheckpointIsRefusedWithTheCommandThatReadsIt) {
  fs::create_directories(place());
  const fs::path pickle = place() / "ckpt.pt";
  write_file(pickle, "PK\x03\x04");
  const std::string command = "scripts/from-nanogpt " + pickle.string() + " META.pkl FOLDER";
  for (const fs::path& named : {place(), pickle}) {
    expect_refused([&] { find_checkpoint(named, ""); }, {pickle.string(), " is a Python pickle", command});
  }
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
  const std::string warnings = warnings_of([&] { EXPECT_EQ(find_checkpoint(place(), "newest"), step(20)); });
  const std::string of_resume = warnings_of([&] { EXPECT_EQ(newest_checkpoint(place()), step(20)); });
  for (const char* damaged : {"step-000030/config.yaml", "step-000040/optimizer", "step-000050/model", "step-000060",
                              "step-000090: its state.json is of step 10", "step-000100"}) {
    EXPECT_TRUE(contains(warnings, damaged));
    EXPECT_TRUE(contains(of_resume, damaged));
  }
  expect_refused([&] { find_checkpoint(place(), "50"); },
                 {"step 50", "10, 20", "step-000050/model.safetensors", "cut"});
}

TEST_F(RunFolder, RunWithNothingButDamageSaysWhatIsWrong) {
  save({10}, 10);
  fs::remove(step(10) / "state.json");
  expect_refused([&] { find_checkpoint(place(), "newest"); }, {"no checkpoint yet", "step-000010/state.json"});
}

TEST_F(RunFolder, RunWithNothingButDamageIsNotTakenForANewOne) {
  save({10, 20}, 10);
  overwrite(step(10) / "config.yaml", "");
  flip(step(20) / "model.safetensors", 1000, 1);
  expect_refused(
      [&] { newest_checkpoint(place()); },
      {place().string() + " has checkpoints, and none can be used", "step-000010/config.yaml: it has 0 bytes",
       "step-000020/model.safetensors: its bytes are not those that were saved", "older"});
}

TEST_F(RunFolder, NewestThatIsAsItWasSavedIsTakenAndTheOthersAreToldOf) {
  save({10, 20, 30}, 10);
  flip(step(30) / "optimizer.safetensors", fs::file_size(step(30) / "optimizer.safetensors") - 1, 0x80);
  const std::string warnings = warnings_of([&] { EXPECT_EQ(newest_checkpoint(place()), step(20)); });
  EXPECT_TRUE(contains(warnings, "step-000030/optimizer.safetensors: its bytes are not those that were saved"));
  EXPECT_TRUE(fs::exists(step(30))) << "it is the person's to judge";
}

TEST_F(RunFolder, CheckpointOfANewerVersionIsRefusedAsSuchAndNotPassedOver) {
  save({10, 20}, 20);
  edit(step(20) / "state.json", "\"version\": 2", "\"version\": 3");
  seal_again(step(20) / "state.json");
  for (const char* which : {"", "best", "newest"}) {
    expect_refused([&] { find_checkpoint(place(), which); }, {"step-000020", "newer inkling", "version 3", "step 10"});
  }
  const auto refusal = error_of([&] { newest_checkpoint(place()); });
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->kind(), ErrorKind::input);
  for (const char* part : {"step-000020", "newer inkling", "version 3", "update", "move its folder away"}) {
    EXPECT_TRUE(contains(refusal->message(), part));
  }
  EXPECT_FALSE(contains(refusal->message(), "amaged"));
  EXPECT_EQ(find_checkpoint(place(), "10"), step(10));
  save({30}, 30);
  EXPECT_EQ(newest_checkpoint(place()), step(30)) << "what is older than the one that is taken is not asked";
}

// This is what a kill leaves between the two renames on a file system that cannot exchange names.
TEST_F(RunFolder, ACheckpointWhoseReplacementWasCutInTwoIsListedAgain) {
  save({10, 20}, 10);
  fs::rename(step(20), replaced_name(step(20)));
  EXPECT_EQ(find_checkpoint(place(), "newest"), step(20));
  EXPECT_EQ(steps(), (Steps{10, 20}));
  EXPECT_EQ(std::distance(fs::directory_iterator(step(20).parent_path()), fs::directory_iterator()), 2);
}

TEST_F(RunFolder, ACheckpointWhoseReplacementWasCutInTwoIsFoundByItsName) {
  save({10, 20}, 10);
  fs::rename(step(20), replaced_name(step(20)));
  EXPECT_EQ(find_checkpoint(step(20) / "", ""), step(20) / "");
  EXPECT_TRUE(fs::exists(step(20) / "state.json"));
}

// This is what a kill leaves after them.
TEST_F(RunFolder, PruningRemovesWhatWasReplaced) {
  save({10, 20}, 20);
  fs::copy(step(20), replaced_name(step(20)), fs::copy_options::recursive);
  fs::copy(step(10), replaced_name(step(15)), fs::copy_options::recursive);
  prune(20, 20, 2);
  EXPECT_FALSE(fs::exists(replaced_name(step(20))));
  EXPECT_TRUE(fs::exists(step(15))) << "the only version of it";
  EXPECT_EQ(std::distance(fs::directory_iterator(place() / "checkpoints"), {}), 3);
}

TEST_F(RunFolder, PruningKeepsTheNewestAndTheBest) {
  save({10, 20, 30, 40, 50}, 20);
  prune(50, 20, 2);
  EXPECT_EQ(steps(), (Steps{20, 40, 50}));
  prune(50, 50, 1);
  EXPECT_EQ(steps(), Steps{50});
  prune(50, -1, 0);
  EXPECT_EQ(steps(), Steps{50});
  EXPECT_EQ(std::distance(fs::directory_iterator(place() / "checkpoints"), {}), 1);
}

TEST_F(RunFolder, PruningLeavesDamagedFoldersToThePerson) {
  save({10, 20, 30}, 30);
  fs::remove(step(10) / "config.json");
  prune(30, 30, 1);
  EXPECT_FALSE(fs::exists(step(20)));
  EXPECT_TRUE(fs::exists(step(10) / "model.safetensors"));
}

// Only a check that reads every byte finds a flipped one, and a save cannot afford that.
TEST_F(RunFolder, PruningDoesNotKeepALaterStepInPlaceOfTheOneJustSaved) {
  save({10, 20, 30}, 10);
  flip(step(30) / "model.safetensors", 1000, 1);
  prune(20, 10, 1);  // the run was resumed from step 10 and has saved step 20
  EXPECT_EQ(steps(), (Steps{10, 20, 30}));
  save({25}, 10);
  prune(25, -1, 1);
  EXPECT_EQ(steps(), (Steps{25, 30}));
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
  prune(10, 10, 1);
  EXPECT_FALSE(fs::exists(checkpoints / ".step-000020.tmp-99999999-0"));
  EXPECT_FALSE(fs::exists(checkpoints / ".step-000030.tmp-99999999-1"));
  EXPECT_TRUE(fs::exists(checkpoints / ".mine.tmp-1-0")) << "not a checkpoint's";
  EXPECT_TRUE(fs::exists(checkpoints / ".step-000040.tmp-1-0")) << "may be growing right now";
}

}  // namespace
}  // namespace inkling
