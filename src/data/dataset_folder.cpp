#include "data/dataset_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/strings.h"
#include "data/dataset_manifest.h"

namespace inkling {

namespace {

// Temporary names of base/files.h begin like this, and so does ours for a data set that is being replaced.
std::string leftover_prefix(const fs::path& folder) { return str(".", folder.filename().string(), ".tmp-"); }

fs::path parent_of(const fs::path& folder) { return folder.has_parent_path() ? folder.parent_path() : fs::path("."); }

bool lock_waiting(int descriptor, const fs::path& folder) {
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return true;
  if (errno != EWOULDBLOCK) return false;
  log_info(str("waiting for another process that prepares ", folder.string()));
  int result = 0;
  do {
    result = ::flock(descriptor, LOCK_EX);
  } while (result != 0 && errno == EINTR);
  return result == 0;
}

// The one before us removes the file when it is done: then what we have locked is no longer what others find.
bool is_still_there(int descriptor, const fs::path& path) {
  struct stat mine{}, there{};
  return ::fstat(descriptor, &mine) == 0 && ::stat(path.c_str(), &there) == 0 && mine.st_ino == there.st_ino;
}

bool is_ours(const std::string& name) {
  if (name == manifest_name || name == bound_name || name == "tokenizer.json" || name == "tokenizer.model") return true;
  return name.ends_with(".bin") && (name.starts_with("train-") || name.starts_with("validation-"));
}

}  // namespace

FolderLock::FolderLock(const fs::path& folder)
    : path_(parent_of(folder) / str(".", folder.filename().string(), ".lock")) {
  while (true) {
    descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor_ < 0) {
      throw Error::environment(str("cannot write into ", parent_of(folder).string(), ": ", std::strerror(errno),
                                   "; choose another place with data.dir"));
    }
    held_ = lock_waiting(descriptor_, folder);
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
  for (const fs::directory_entry& entry : fs::directory_iterator(parent_of(folder), ignored)) {
    if (entry.path().filename().string().starts_with(prefix)) leftovers.push_back(entry.path());
  }
  for (const fs::path& leftover : leftovers) fs::remove_all(leftover, ignored);
}

void refuse_foreign_files(const fs::path& folder) {
  if (!fs::exists(folder)) return;
  if (!fs::is_directory(folder)) {
    throw Error::input(str("data.dir: ", folder.string(), " is a file: name a folder that may be made or replaced"));
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (is_ours(name)) continue;
    throw Error::input(str("data.dir: ", folder.string(), " holds ", name,
                           ", which inkling-prepare did not write, and would be replaced: name another folder"));
  }
}

void replace_folder(OutputFolder& fresh, const fs::path& folder) {
  std::error_code code;
  if (!fs::exists(folder)) return fresh.commit();
  const fs::path aside = parent_of(folder) / str(leftover_prefix(folder), ::getpid(), "-replaced");
  fs::rename(folder, aside, code);
  if (code) {
    throw Error::environment(
        str("cannot replace ", folder.string(), ": ", code.message(), "; remove it and run again"));
  }
  fresh.commit();
  fs::remove_all(aside, code);
}

}  // namespace inkling
