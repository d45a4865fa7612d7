// Making a data folder while other processes may want to do the same.
#pragma once

#include <filesystem>

namespace inkling {

// Held by the one process that prepares `folder`: an flock on a hidden file beside it, which goes away with the lock.
// Waits, saying so, while another process holds it. Where the file system has no locks it says so and goes on without
// one: temporary names are unique, so the worst is work done twice. Error environment for any other reason.
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

}  // namespace inkling
