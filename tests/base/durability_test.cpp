// What was reported as written survives a power cut: these tests check the order of fsync and rename.
#include "tests/durability.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "base/files.h"

namespace inkling {
namespace {

TEST(Durability, AFileIsSyncedBeforeItsRenameAndTheFolderAfterIt) {
  const TemporaryFolder folder;
  for (const char* text : {"first", "second"}) {
    const RecordedCalls calls;
    write_file(folder / "a", text);
    expect_durable(calls.durability(), folder / "a");
  }
}

TEST(Durability, AFolderIsSyncedWithAllItHoldsBeforeItsRenameAndItsParentAfterIt) {
  const TemporaryFolder folder;
  for (const bool replaces : {false, true}) {
    const RecordedCalls calls;
    OutputFolder next(folder / "step");
    fs::create_directories(next.temporary() / "inner/empty");
    write_file(next.temporary() / "inner/a", "text");
    std::ofstream(next.temporary() / "b") << "text";
    replaces ? next.replace() : next.commit();
    expect_durable(calls.durability(), folder / "step");
  }
}

TEST(Durability, AFolderThatCannotBeExchangedIsSyncedAsWell) {
  const TemporaryFolder folder;
  write_file((fs::create_directory(folder / "step"), folder / "step/a"), "old");
  const SystemCalls without_exchange(
      [](std::string_view call, const std::string&) { return call == "renameat2" ? EINVAL : 0; });
  const RecordedCalls calls;
  OutputFolder next(folder / "step");
  write_file(next.temporary() / "a", "new");
  next.replace();
  expect_durable(calls.durability(), folder / "step");
}

TEST(Durability, NewFoldersAreSyncedInTheirParents) {
  const TemporaryFolder folder;
  const RecordedCalls calls;
  create_folders(folder / "a/b/c");
  EXPECT_EQ(calls.durability().unsynced, Unsynced());
}

// Shows that the tests above can fail: if either sync is left out, the record shows it.
TEST(Durability, AMissingSyncShows) {
  const TemporaryFolder folder;
  const auto without = [&](bool of_the_file) {
    const SystemCalls skipping([&](std::string_view call, const std::string& path) {
      return call == "fsync" && of_the_file == (path != folder.path()) ? skip_call : 0;
    });
    const RecordedCalls calls;
    write_file(folder / "a", "text");
    return calls.durability();
  };
  EXPECT_TRUE(without(true).renames.back().unsynced.contains(folder / "a"));
  EXPECT_FALSE(without(false).renames.back().lasting);
}

}  // namespace
}  // namespace inkling
