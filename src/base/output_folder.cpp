// Writing a folder: OutputFolder and create_folders of base/files.h.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/error.h"
#include "base/file_errors.h"
#include "base/files.h"
#include "base/strings.h"
#include "base/temporary.h"

namespace inkling {

namespace {

void sync_file(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) throw_write_error("sync", path, errno);
  const int code = ::fsync(descriptor) == 0 ? 0 : errno;
  ::close(descriptor);
  if (code != 0) throw_write_error("sync", path, code);
}

// Everything below `folder` and the folder itself, however it was written.
void sync_tree(const fs::path& folder) {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.is_symlink()) continue;
    if (entry.is_directory())
      sync_tree(entry.path());
    else if (entry.is_regular_file())
      sync_file(entry.path());
  }
  sync_folder(folder);
}

}  // namespace

OutputFolder::OutputFolder(const fs::path& path)
    : path_(path.has_filename() ? path : path.parent_path()) {  // "runs/a/" names runs/a
  remove_abandoned(path_);
  for (int attempt = 0;; ++attempt) {
    temporary_ = temporary_name(path_, attempt);
    if (::mkdir(temporary_.c_str(), 0777) == 0) break;
    if (errno != EEXIST) throw_write_error("create", path_, errno);
  }
  descriptor_ = ::open(temporary_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor_ >= 0) lock_temporary(descriptor_);
}

OutputFolder::~OutputFolder() {
  std::error_code ignored;
  if (!committed_) fs::remove_all(temporary_, ignored);
  if (descriptor_ >= 0) ::close(descriptor_);
}

void OutputFolder::commit() {
  if (committed_) throw Error::internal(str("second commit of ", path_.string()));
  if (fs::exists(fs::symlink_status(path_))) {
    throw Error::environment(str("cannot create ", path_.string(), ": it exists already; move it away first"));
  }
  sync_contents();
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) throw_write_error("create", path_, errno);
  committed_ = true;
  sync_folder(folder_of(path_));
}

void OutputFolder::replace() {
  if (!fs::exists(fs::symlink_status(path_))) return commit();
  if (committed_) throw Error::internal(str("second commit of ", path_.string()));
  sync_contents();
  fs::path old = temporary_;
  if (::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, path_.c_str(), RENAME_EXCHANGE) == 0) {
    committed_ = true;
    sync_folder(folder_of(path_));
  } else {
    if (errno != EINVAL && errno != ENOSYS) throw_write_error("replace", path_, errno);
    // Some file systems (NFS) cannot exchange names. Then for a moment the old folder stands beside its name only.
    old += "-old";
    if (::rename(path_.c_str(), old.c_str()) != 0) throw_write_error("replace", path_, errno);
    commit();
  }
  std::error_code ignored;
  fs::remove_all(old, ignored);
}

void OutputFolder::sync_contents() const {
  try {
    sync_tree(temporary_);
  } catch (const fs::filesystem_error& error) {
    throw_write_error("sync", path_, error.code().value());
  }
}

void create_folders(const fs::path& folder) {
  std::error_code code;
  fs::create_directories(folder, code);
  if (code) throw_write_error("create the folder", folder, code.value());
  if (!fs::is_directory(folder, code)) throw_write_error("create the folder", folder, ENOTDIR);
}

}  // namespace inkling
