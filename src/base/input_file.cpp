// Reading: read_small_file and InputFile of base/files.h.
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/strings.h"
#include "base/system_files.h"

namespace inkling {

namespace {

// Opens with O_NONBLOCK, because a pipe that nobody writes to would otherwise hang here instead of being refused;
// regular files ignore it.
int open_for_reading(const fs::path& path) {
  // A name that was read from a file may hold a zero byte; the system would open the part before it.
  if (path.native().find('\0') != std::string::npos) throw_read_error(path, ENOENT);
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor < 0) throw_read_error(path, errno);
  return descriptor;
}

// A descriptor that is closed when an error passes by.
class OpenedFile {
 public:
  explicit OpenedFile(const fs::path& path) : descriptor_(open_for_reading(path)) {}
  ~OpenedFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  OpenedFile(const OpenedFile&) = delete;
  OpenedFile& operator=(const OpenedFile&) = delete;

  int descriptor() const { return descriptor_; }
  int release() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_;
};

enum class Pipes { refused, read };

[[noreturn]] void refuse_kind(const fs::path& path, const char* kind) {
  throw Error::input(str("cannot read ", path.string(), ": it is ", kind, "; copy what it holds to a file first"));
}

struct stat checked_status(const OpenedFile& file, const fs::path& path, Pipes pipes) {
  struct stat status{};
  if (::fstat(file.descriptor(), &status) != 0) throw_read_error(path, errno);
  if (S_ISDIR(status.st_mode)) throw_read_error(path, EISDIR);
  if (S_ISFIFO(status.st_mode) && pipes == Pipes::refused) refuse_kind(path, "a pipe");
  if (!S_ISREG(status.st_mode) && !S_ISFIFO(status.st_mode)) refuse_kind(path, "a device");
  return status;
}

// Until somebody writes to it, a pipe opened with O_NONBLOCK reads as if it had ended.
void wait_for_writer(const OpenedFile& file, const fs::path& path) {
  pollfd wanted{.fd = file.descriptor(), .events = POLLIN, .revents = 0};
  while (::poll(&wanted, 1, -1) < 0) {
    if (errno != EINTR) throw_read_error(path, errno);
  }
  if (::fcntl(file.descriptor(), F_SETFL, 0) != 0) throw_read_error(path, errno);
}

void check_size(std::size_t size, const fs::path& path) {
  if (size <= largest_small_file) return;
  throw Error::input(str("cannot read ", path.string(), ": it is larger than ", format_bytes(largest_small_file),
                         ", the most that such a file may hold; check that it is the one you meant"));
}

// The size that fstat() gives is only a guess: it is 0 for a pipe and in /proc, and a file may grow while it is read.
std::string read_to_end(const OpenedFile& file, const fs::path& path, std::size_t expected) {
  check_size(expected, path);
  std::string contents(expected + 1, '\0');  // one more, so that the end is seen without growing
  std::size_t length = 0;
  while (true) {
    const ssize_t count = ::read(file.descriptor(), contents.data() + length, contents.size() - length);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_read_error(path, errno);
    if (count == 0) break;
    length += static_cast<std::size_t>(count);
    check_size(length, path);
    if (length == contents.size()) contents.resize(2 * length + (1 << 16));
  }
  contents.resize(length);
  return contents;
}

std::string read_whole(const fs::path& path, Pipes pipes) {
  const OpenedFile file(path);
  const struct stat status = checked_status(file, path, pipes);
  if (S_ISFIFO(status.st_mode)) wait_for_writer(file, path);
  return read_to_end(file, path, static_cast<std::size_t>(status.st_size));
}

}  // namespace

std::string read_small_file(const fs::path& path) { return read_whole(path, Pipes::refused); }

std::string read_small_file_or_pipe(const fs::path& path) { return read_whole(path, Pipes::read); }

InputFile::InputFile(const fs::path& path) : path_(path) {
  OpenedFile file(path);
  size_ = static_cast<std::uint64_t>(checked_status(file, path, Pipes::refused).st_size);
  descriptor_ = file.release();
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

std::string InputFile::read_all() const {
  std::string text(size_, '\0');
  read_exactly(0, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace inkling
