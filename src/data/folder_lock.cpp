#include "data/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/paths.h"
#include "base/strings.h"
#include "base/system_files.h"
#include "data/dataset_parts.h"

namespace inkling {

namespace {

// The temporary names of base/files.h begin like this.
std::string leftover_prefix(const fs::path& folder) { return str(".", folder.filename().string(), ".tmp-"); }

// Returns whether the lock is held, which it never is on a file system without locks. Throws Error environment for any
// other failure.
bool lock_waiting(int descriptor, const fs::path& folder) {
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return true;
  if (errno == EWOULDBLOCK) {
    log_info(str("waiting for another process that prepares ", folder.string()));
    int result = 0;
    do {
      result = ::flock(descriptor, LOCK_EX);
    } while (result != 0 && errno == EINTR);
    if (result == 0) return true;
  }
  const int code = errno;
  if (!has_no_locks(code)) {
    throw Error::environment(str("cannot lock ", folder.string(), " while it is prepared: ", errno_text(code),
                                 "; check the disk, or choose another place with data.dir"));
  }
  log_warning(str("the file system of ", folder_of(folder).string(), " has no locks (", errno_text(code),
                  "): make sure that no other process prepares ", folder.string(), " at the same time"));
  return false;
}

// The process that held the lock before us removes the file when it is done: then the file that we have locked is no
// longer the one that others find.
bool is_still_there(int descriptor, const fs::path& path) {
  struct stat mine{}, there{};
  return ::fstat(descriptor, &mine) == 0 && ::stat(path.c_str(), &there) == 0 && mine.st_ino == there.st_ino;
}

}  // namespace

FolderLock::FolderLock(const fs::path& folder)
    : path_(folder_of(folder) / str(".", folder.filename().string(), ".lock")) {
  while (true) {
    descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor_ < 0) {
      throw Error::environment(str("cannot write into ", folder_of(folder).string(), ": ", errno_text(errno),
                                   "; choose another place with data.dir"));
    }
    try {
      held_ = lock_waiting(descriptor_, folder);
    } catch (const Error&) {
      ::close(descriptor_);
      throw;
    }
    if (!held_ || is_still_there(descriptor_, path_)) return;
    ::close(descriptor_);
  }
}

FolderLock::~FolderLock() {
  if (held_) {
    ::unlink(path_.c_str());
    ::flock(descriptor_, LOCK_UN);  // closing alone would leave it to a child that a fork has given the descriptor
  }
  ::close(descriptor_);
}

void remove_leftovers(const fs::path& folder) {
  const std::string prefix = leftover_prefix(folder);
  std::vector<fs::path> leftovers;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_of(folder), ignored)) {
    if (entry.path().filename().string().starts_with(prefix)) leftovers.push_back(entry.path());
  }
  for (const fs::path& leftover : leftovers) remove_written(leftover);
}

}  // namespace inkling
