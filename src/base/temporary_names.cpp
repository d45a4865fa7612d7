#include "base/temporary_names.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ctime>
#include <string>
#include <system_error>

#include "base/paths.h"
#include "base/strings.h"

namespace inkling {

namespace fs = std::filesystem;

namespace {

constexpr std::time_t grace_seconds = 60;  // longer than any writer takes from creating to locking

std::string temporary_prefix(const fs::path& path) { return str(".", path.filename().string(), ".tmp-"); }

bool is_abandoned(const fs::path& temporary) {
  const int descriptor = ::open(temporary.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return false;
  struct stat status{};
  const bool old = ::fstat(descriptor, &status) == 0 && status.st_mtime < std::time(nullptr) - grace_seconds;
  const bool free = ::flock(descriptor, LOCK_EX | LOCK_NB) == 0;
  ::close(descriptor);
  return old && free;
}

}  // namespace

fs::path temporary_name(const fs::path& path, int attempt) {
  return folder_of(path) / str(temporary_prefix(path), ::getpid(), "-", attempt);
}

void lock_temporary(int descriptor) {
  // On a file system without locks the minute's grace is the only protection; that is not a reason to refuse to write.
  (void)::flock(descriptor, LOCK_EX | LOCK_NB);
}

void remove_everything(const fs::path& path) {
  std::error_code ignored;  // what cannot be tidied up does not matter to the writer
  fs::remove_all(path, ignored);
}

void remove_abandoned(const fs::path& path, void (*remove)(const fs::path&)) {
  std::error_code ignored;
  const std::string prefix = temporary_prefix(path);
  for (fs::directory_iterator entry(folder_of(path), ignored), end; entry != end; entry.increment(ignored)) {
    if (entry->path().filename().string().starts_with(prefix) && is_abandoned(entry->path())) {
      remove(entry->path());
    }
  }
}

fs::path replaced_name(const fs::path& path) {
  return folder_of(path) / str(".", path.filename().string(), ".replaced");
}

void restore_replaced(const fs::path& folder) {
  const fs::path path = without_slash(folder);
  std::error_code ignored;
  if (fs::exists(fs::symlink_status(path, ignored)) || !fs::is_directory(replaced_name(path), ignored)) return;
  // If the writer is alive and has gone on, this fails, as it should: a rename never replaces a folder that holds
  // something.
  fs::rename(replaced_name(path), path, ignored);
}

}  // namespace inkling
