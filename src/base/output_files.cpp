// Writing files and folders: OutputFile, OutputFolder, write_file and sync_folder of base/files.h.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/paths.h"
#include "base/strings.h"
#include "base/system_files.h"

namespace inkling {

namespace {

constexpr std::size_t buffer_size = 1 << 20;

void write_all(int descriptor, std::uint64_t offset, std::span<const std::byte> bytes, const fs::path& path) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(descriptor, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_write_error("write", path, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
}

void sync_file(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) throw_write_error("sync", path, errno);
  const int code = ::fsync(descriptor) == 0 ? 0 : errno;
  ::close(descriptor);
  if (code != 0) throw_write_error("sync", path, code);
}

// Syncs everything below `folder` and the folder itself, however it was written.
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

// Returns errno, or 0 if the folder is there now. A new folder survives a crash only if its parent has been synced.
int make_folders(const fs::path& folder) {
  std::error_code ignored;
  if (fs::is_directory(folder, ignored)) return 0;
  const fs::path parent = folder_of(folder);
  if (parent == folder) return ENOENT;  // a working folder that has been removed
  if (const int code = make_folders(parent); code != 0) return code;
  if (::mkdir(folder.c_str(), 0777) == 0) {
    sync_folder(parent);
    return 0;
  }
  const int code = errno;
  if (fs::is_directory(folder, ignored)) return 0;  // another process was faster
  return code == EEXIST ? ENOTDIR : code;
}

}  // namespace

OutputFile::OutputFile(const fs::path& path) : path_(path) {
  remove_abandoned(path);
  for (int attempt = 0; descriptor_ < 0; ++attempt) {
    temporary_ = temporary_name(path, attempt);
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && errno != EEXIST) throw_write_error("create", path, errno);
  }
  lock_temporary(descriptor_);
  buffer_.reserve(buffer_size);
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void OutputFile::write(std::string_view text) { write(std::as_bytes(std::span(text))); }

void OutputFile::write(std::span<const std::byte> bytes) {
  if (buffer_.size() + bytes.size() > buffer_size) flush();
  if (bytes.size() >= buffer_size) {
    write_all(descriptor_, size_, bytes, path_);
  } else {
    buffer_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  size_ += bytes.size();
}

void OutputFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  if (offset > size_ || bytes.size() > size_ - offset) {
    throw Error::internal(str("write_at past the end of ", path_.string()));
  }
  flush();
  write_all(descriptor_, offset, bytes, path_);
}

void OutputFile::flush() {
  write_all(descriptor_, size_ - buffer_.size(), std::as_bytes(std::span(buffer_)), path_);
  buffer_.clear();
}

void OutputFile::commit() {
  if (descriptor_ < 0) throw Error::internal(str("second commit of ", path_.string()));
  flush();
  if (::fsync(descriptor_) != 0) throw_write_error("write", path_, errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) throw_write_error("write", path_, errno);
  ::close(std::exchange(descriptor_, -1));  // its errors were fsync's; closing later keeps the lock until the rename
  temporary_.clear();
  sync_folder(folder_of(path_));
}

void write_file(const fs::path& path, std::string_view contents) {
  OutputFile file(path);
  file.write(contents);
  file.commit();
}

void sync_folder(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) throw_write_error("sync", folder, errno);
  const int code = ::fsync(descriptor) == 0 ? 0 : errno;
  ::close(descriptor);
  const bool unsupported = code == EINVAL || code == ENOTSUP;  // some network file systems cannot sync folders
  if (code != 0 && !unsupported) throw_write_error("sync", folder, code);
}

// Writing a folder: OutputFolder and create_folders of base/files.h.

OutputFolder::OutputFolder(const fs::path& path) : OutputFolder(path, remove_everything) {}

OutputFolder::OutputFolder(const fs::path& path, Remove remove) : path_(without_slash(path)), remove_(remove) {
  restore_replaced(path_);
  remove_abandoned(path_, remove_);
  for (int attempt = 0;; ++attempt) {
    temporary_ = temporary_name(path_, attempt);
    if (::mkdir(temporary_.c_str(), 0777) == 0) break;
    if (errno != EEXIST) throw_write_error("create", path_, errno);
  }
  descriptor_ = ::open(temporary_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor_ >= 0) lock_temporary(descriptor_);
  std::error_code ignored;
  if (fs::exists(fs::symlink_status(path_, ignored))) remove_replaced();
}

OutputFolder::~OutputFolder() {
  std::error_code ignored;
  if (!committed_) fs::remove_all(temporary_, ignored);
  if (!committed_) restore_replaced(path_);
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
  if (committed_) throw Error::internal(str("second commit of ", path_.string()));
  sync_contents();
  const bool exchanged = ::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, path_.c_str(), RENAME_EXCHANGE) == 0;
  if (!exchanged) {
    const bool cannot_exchange = errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP;
    if (cannot_exchange || errno == ENOENT) return replace_in_two_steps();
    throw_write_error("replace", path_, errno);
  }
  committed_ = true;
  sync_folder(folder_of(path_));
  remove_(temporary_);  // the older folder's name now
}

// Used where `path_` is missing, and on file systems that cannot exchange names (NFS). Other processes may call
// restore_replaced() at any time: then `path_` is there again, and another round is all that is needed.
void OutputFolder::replace_in_two_steps() {
  while (::rename(temporary_.c_str(), path_.c_str()) != 0) {
    if (errno != ENOTEMPTY && errno != EEXIST) throw_write_error("replace", path_, errno);
    remove_replaced();
    if (::rename(path_.c_str(), replaced_name(path_).c_str()) != 0 && errno != ENOENT) {
      throw_write_error("replace", path_, errno);
    }
    sync_folder(folder_of(path_));
  }
  committed_ = true;
  sync_folder(folder_of(path_));
  remove_replaced();
}

// Called only while `path_` is there. The older folder is renamed first, because a folder that is half removed must not
// be put back.
void OutputFolder::remove_replaced() const {
  fs::path old = temporary_;
  old += "-old";
  if (::rename(replaced_name(path_).c_str(), old.c_str()) == 0) remove_(old);
}

void OutputFolder::sync_contents() const {
  try {
    sync_tree(temporary_);
  } catch (const fs::filesystem_error& error) {
    throw_write_error("sync", path_, error.code().value());
  }
}

void create_folders(const fs::path& folder) {
  const int code = make_folders(without_slash(folder));
  if (code != 0) throw_write_error("create the folder", folder, code);
}

}  // namespace inkling
