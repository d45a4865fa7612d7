// What a power cut would lose, from the calls that tests/system_calls.h records.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "tests/system_calls.h"
#include "tests/temporary_folder.h"

namespace inkling {

// Files that were written and folders in which names came or changed, and not synced since.
using Unsynced = std::set<fs::path>;

struct Durability {
  struct Rename {
    fs::path to;
    Unsynced unsynced;     // just before, under the names that it gives
    bool lasting = false;  // whether the folder was synced afterwards
  };

  std::vector<Rename> renames;
  Unsynced unsynced;  // at the end
};

inline bool is_or_is_below(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

inline Unsynced renamed(const Unsynced& unsynced, const fs::path& from, const fs::path& to) {
  Unsynced result;
  for (const fs::path& path : unsynced) {
    if (path == from) result.insert(to);
    if (path != from) result.insert(is_or_is_below(path, from) ? to / path.lexically_relative(from) : path);
  }
  return result;
}

inline Durability durability(const fs::path& record) {
  Durability found;
  std::ifstream lines(record);
  const auto field = [&lines] {
    std::string text;
    std::getline(lines, text, '\t');
    return text;
  };
  for (std::string call = field(); lines; lines.ignore(1), call = field()) {
    const fs::path path = field(), second = field();
    if (call == "write") found.unsynced.insert(path);
    if (call == "sync") {
      found.unsynced.erase(path);
      for (Durability::Rename& rename : found.renames) rename.lasting |= rename.to.parent_path() == path;
    }
    if (call == "create") found.unsynced.insert(path.parent_path());
    if (call != "rename") continue;
    found.unsynced = renamed(found.unsynced, path, second);
    found.renames.push_back({.to = second, .unsynced = found.unsynced});
    found.unsynced.insert({path.parent_path(), second.parent_path()});
  }
  return found;
}

// Records what this process does from its construction on.
class RecordedCalls {
 public:
  RecordedCalls() { record_system_calls((folder_ / "calls").c_str()); }
  ~RecordedCalls() { record_system_calls(nullptr); }
  RecordedCalls(const RecordedCalls&) = delete;
  RecordedCalls& operator=(const RecordedCalls&) = delete;
  Durability durability() const { return inkling::durability(folder_ / "calls"); }

 private:
  TemporaryFolder folder_;
};

// Expects that `target`, a file or a folder, was on the disk with all it holds before it got its name, and its name
// afterwards.
inline void expect_durable(const Durability& found, const fs::path& target) {
  const auto last = std::find_if(found.renames.rbegin(), found.renames.rend(),
                                 [&](const Durability::Rename& rename) { return rename.to == target; });
  ASSERT_NE(last, found.renames.rend()) << target << " did not get its name by a rename";
  for (const fs::path& path : last->unsynced) {
    EXPECT_FALSE(is_or_is_below(path, target)) << path << " was not synced when " << target << " got its name";
  }
  for (const fs::path& path : found.unsynced) EXPECT_FALSE(is_or_is_below(path, target)) << path << " is not synced";
  EXPECT_TRUE(last->lasting) << "the name of " << target << " is not synced";
}

}  // namespace inkling
