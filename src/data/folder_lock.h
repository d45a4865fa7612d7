// A lock for making a data folder, while other processes may want to make the same one.
#pragma once

#include <filesystem>

namespace inkling {

// The lock is held by the one process that prepares `folder`: it is an flock on a hidden file in the same place, which
// is removed with the lock. The constructor waits, and says so, while another process holds it. Where the file system
// has no locks it says so and goes on without one: temporary names are unique, so at worst the work is done twice. It
// throws Error environment for any other reason.
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

// Removes what interrupted processes have left where they made `folder`. Only the holder of its lock may call this.
void remove_leftovers(const std::filesystem::path& folder);

}  // namespace inkling
