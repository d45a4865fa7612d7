// What is left of folders after a crash while they are made or replaced.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/paths.h"
#include "base/strings.h"
#include "tests/system_calls.h"
#include "tests/temporary_folder.h"

namespace inkling {
namespace {

void fill_version(const fs::path& folder, const std::string& text) {
  fs::create_directory(folder / "inner");
  write_file(folder / "a", text);
  write_file(folder / "inner/b", text);
}

// Returns what both files say; "" if one is missing or they are of two versions.
std::string version_in(const fs::path& folder) {
  if (!fs::exists(folder / "a") || !fs::exists(folder / "inner/b")) return "";
  const std::string text = read_file(folder / "a");
  return read_file(folder / "inner/b") == text ? text : "";
}

void replace_by(const fs::path& folder, const std::string& text) {
  OutputFolder next(folder);
  fill_version(next.temporary(), text);
  next.replace();
}

std::size_t count_in(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

// Makes everything in `folder` look an hour old: then hidden names that nobody needs are removed.
void age_everything(const fs::path& folder) {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    fs::last_write_time(entry.path(), fs::file_time_type::clock::now() - std::chrono::hours(1));
  }
}

int exchange_fails(std::string_view call) { return call == "renameat2" ? EINVAL : 0; }

class Replace : public testing::TestWithParam<bool> {  // whether names can be exchanged
 protected:
  static int fails(std::string_view call) { return GetParam() ? 0 : exchange_fails(call); }

  TemporaryFolder folder;
  const fs::path target = folder / "step";
};

// After a kill at any moment a whole version is there for whoever comes next, at once or an hour later: the next
// reader, or a writer that has not looked before. It can be replaced again, which leaves nothing else behind.
TEST_P(Replace, KilledAtAnyMomentLeavesOneWholeVersionToBeFound) {
  std::vector<std::string> found;
  const auto prepare = [&] { replace_by(target, "old"); };
  const auto check = [&](int step) {
    age_everything(folder.path());
    if (step % 2 == 0) restore_replaced(target);
    {
      const OutputFolder dropped(target);
    }
    found.push_back(version_in(target));
    EXPECT_TRUE(found.back() == "old" || found.back() == "new") << "killed in front of call " << step;
    replace_by(target, "again");
    EXPECT_EQ(version_in(target), "again");
    EXPECT_EQ(count_in(folder.path()), 1u) << "killed in front of call " << step;
  };
  EXPECT_GT(kill_at_every_step(prepare, [&] { replace_by(target, "new"); }, check, fails), 10);
  EXPECT_TRUE(std::is_sorted(found.begin(), found.end(), std::greater<>())) << "once new, always new";
  EXPECT_EQ(found.front(), "old");
  EXPECT_EQ(found.back(), "new");
}

TEST_P(Replace, WorksWhereNothingStandsAndLeavesNothingBeside) {
  const SystemCalls watched([](std::string_view call, const std::string&) { return fails(call); });
  for (const char* version : {"one", "two", "three"}) {
    replace_by(target, version);
    EXPECT_EQ(version_in(target), version);
    EXPECT_EQ(count_in(folder.path()), 1u);
  }
}

// All that a version holds is on the disk before its name is, and its name is before the older version is removed.
TEST_P(Replace, SyncsContentsThenNamesThenRemoves) {
  replace_by(target, "old");
  std::vector<std::string> calls;
  {
    const SystemCalls watched([&](std::string_view call, const std::string& path) {
      const int code = fails(call);
      if (code == 0)
        calls.push_back(str(call, " ", path == folder.path() ? "parent" : fs::path(path).filename().string()));
      return code;
    });
    replace_by(target, "new");
  }
  const auto last = [&](std::string_view part) {
    const auto found =
        std::find_if(calls.rbegin(), calls.rend(), [&](const auto& call) { return call.find(part) == 0; });
    return calls.rend() - found;
  };
  const auto first_removed =
      std::find_if(calls.begin(), calls.end(), [](const auto& call) { return call.starts_with("unlink"); });
  const auto named = std::max(last("rename step"), last("renameat2 step"));
  EXPECT_GT(named, last("fsync a"));
  EXPECT_GT(named, last("fsync b"));
  EXPECT_GT(named, last("fsync inner"));
  EXPECT_GT(named, last("fsync .step.tmp"));
  EXPECT_GT(last("fsync parent"), named);
  EXPECT_GT(first_removed - calls.begin() + 1, last("fsync parent"));
}

INSTANTIATE_TEST_SUITE_P(WhereNamesCanBeExchanged, Replace, testing::Values(true));
INSTANTIATE_TEST_SUITE_P(WhereTheyCannot, Replace, testing::Values(false));

// A reader that puts the older version back at the worst moment costs the writer another round and nothing else.
TEST(ReplaceInTwoSteps, GoesOnBesideAReaderThatRestores) {
  const TemporaryFolder folder;
  const fs::path target = folder / "step";
  replace_by(target, "old");
  int restored = 0;
  {
    const SystemCalls watched([&](std::string_view call, const std::string& path) {
      const bool between = call == "fsync" && path == folder.path() && !fs::exists(target);
      if (between && restored < 3) {
        ++restored;
        restore_replaced(target);
        EXPECT_EQ(version_in(target), "old");
      }
      return exchange_fails(call);
    });
    replace_by(target, "new");
  }
  EXPECT_EQ(restored, 3);
  EXPECT_EQ(version_in(target), "new");
  EXPECT_EQ(count_in(folder.path()), 1u);
}

TEST(ReplaceInTwoSteps, ThatFailsInTheMiddleBringsTheOldOneBack) {
  const TemporaryFolder folder;
  const fs::path target = folder / "step";
  replace_by(target, "old");
  const auto error = error_of([&] {
    const SystemCalls watched([&](std::string_view call, const std::string& path) {
      const bool second_step = call == "rename" && path == target && !fs::exists(target);
      static bool failed = false;
      return second_step && !std::exchange(failed, true) ? EIO : exchange_fails(call);
    });
    replace_by(target, "new");
  });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::environment);
  EXPECT_EQ(version_in(target), "old");
  EXPECT_EQ(count_in(folder.path()), 1u);
}

TEST(CreateFolders, SyncsTheParentOfEachNewFolder) {
  const TemporaryFolder folder;
  create_folders(folder / "a");
  std::vector<std::string> calls;
  const SystemCalls watched([&](std::string_view call, const std::string& path) {
    calls.push_back(str(call, " ", fs::path(path).lexically_relative(folder.path()).string()));
    return 0;
  });
  create_folders(folder / "a/b/c/");
  EXPECT_EQ(calls, (std::vector<std::string>{"mkdir a/b", "fsync a", "mkdir a/b/c", "fsync a/b"}));
}

TEST(CreateFolders, OfAParentThatCannotBeSyncedIsAnError) {
  const TemporaryFolder folder;
  const SystemCalls watched([](std::string_view call, const std::string&) { return call == "fsync" ? EIO : 0; });
  const auto error = error_of([&] { create_folders(folder / "a/b"); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::environment);
}

}  // namespace
}  // namespace inkling
