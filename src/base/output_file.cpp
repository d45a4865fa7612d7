// Writing one file: OutputFile, write_file and sync_folder of base/files.h.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/error.h"
#include "base/file_errors.h"
#include "base/files.h"
#include "base/paths.h"
#include "base/strings.h"
#include "base/temporary_names.h"

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

}  // namespace inkling
