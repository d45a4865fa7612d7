// Making and replacing a data folder while other processes may want to do the same.
#pragma once

#include <filesystem>
#include <string>

#include "base/files.h"

namespace inkling {

// Held by the one process that prepares `folder`: an flock on a hidden file beside it, which goes away with the lock.
// Waits, saying so, while another process holds it. Where the file system has no locks it goes on without one:
// temporary names are unique, so the worst is work done twice.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  bool held() const { return held_; }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  bool held_ = false;
};

// Removes what interrupted processes have left beside `folder`. Only for the holder of its lock.
void remove_leftovers(const std::filesystem::path& folder);

// Error input if `folder` holds anything that inkling-prepare does not write: it is about to be replaced.
void refuse_foreign_files(const std::filesystem::path& folder);

// Commits `fresh` under the name `folder`, in place of the older data set there, if any.
void replace_folder(OutputFolder& fresh, const std::filesystem::path& folder);

}  // namespace inkling
