// Reading: read_file and InputFile of base/files.h.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/error.h"
#include "base/file_errors.h"
#include "base/files.h"
#include "base/strings.h"

namespace inkling {

namespace {

int open_for_reading(const fs::path& path, int flags) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags);
  if (descriptor < 0) throw_read_error(path, errno);
  return descriptor;
}

struct stat status_of(int descriptor, const fs::path& path) {
  struct stat status{};
  if (::fstat(descriptor, &status) != 0) {
    const int code = errno;
    ::close(descriptor);
    throw_read_error(path, code);
  }
  if (S_ISDIR(status.st_mode)) {
    ::close(descriptor);
    throw_read_error(path, EISDIR);
  }
  return status;
}

}  // namespace

std::string read_file(const fs::path& path) {
  const int descriptor = open_for_reading(path, 0);
  const auto expected = static_cast<std::size_t>(status_of(descriptor, path).st_size);  // 0 for a pipe
  std::string contents(expected + 1, '\0');  // one more, so that the end is seen without growing
  std::size_t length = 0;
  while (true) {
    if (length == contents.size()) contents.resize(std::max<std::size_t>(2 * length, 1 << 16));
    const ssize_t count = ::read(descriptor, contents.data() + length, contents.size() - length);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      const int code = errno;
      ::close(descriptor);
      throw_read_error(path, code);
    }
    if (count == 0) break;
    length += static_cast<std::size_t>(count);
  }
  ::close(descriptor);
  contents.resize(length);
  return contents;
}

// Without O_NONBLOCK a pipe that nobody writes to would hang here instead of being refused.
InputFile::InputFile(const fs::path& path) : path_(path), descriptor_(open_for_reading(path, O_NONBLOCK)) {
  const struct stat status = status_of(descriptor_, path);
  if (!S_ISREG(status.st_mode)) {
    ::close(descriptor_);
    throw Error::input(str("cannot read ", path.string(), ": it is a pipe or a device; copy it to a file first"));
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)), size_(other.size_) {}

std::size_t InputFile::read_some(std::uint64_t offset, std::span<std::byte> out) const {
  std::size_t length = 0;
  while (length < out.size()) {
    const ssize_t count =
        ::pread(descriptor_, out.data() + length, out.size() - length, static_cast<off_t>(offset + length));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_read_error(path_, errno);
    if (count == 0) break;
    length += static_cast<std::size_t>(count);
  }
  return length;
}

void InputFile::read_exactly(std::uint64_t offset, std::span<std::byte> out) const {
  const std::size_t length = read_some(offset, out);
  if (length == out.size()) return;
  throw Error::input(str(path_.string(), ": ends at byte ", offset + length, " where byte ", offset + out.size(),
                         " was expected; the file was cut short, make or fetch it again"));
}

}  // namespace inkling
