#include "tests/system_calls.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>

namespace inkling {

std::function<int(std::string_view call, const std::string& path)> on_system_call;

namespace {

namespace fs = std::filesystem;

std::atomic<int> record = -1;

// The path of an open file, as far as the kernel knows it; empty for a pipe or the like.
std::string path_of(int descriptor) {
  std::error_code ignored;
  const std::string path = fs::read_symlink("/proc/self/fd/" + std::to_string(descriptor), ignored).string();
  return path.starts_with('/') ? path : "";
}

// What a call returns without being made, if the test wants that.
std::optional<int> answer(std::string_view call, const std::string& path) {
  const int code = on_system_call ? on_system_call(call, path) : 0;
  if (code == 0) return std::nullopt;
  if (code == skip_call) return 0;
  errno = code;
  return -1;
}

// Returns the result of a call that was made.
template <typename Result = int>
Result recorded(long result, const char* what, const std::string& path, const std::string& second = "") {
  if (record < 0 || result < 0 || path.empty()) return static_cast<Result>(result);
  const int error = errno;
  std::error_code ignored;
  std::string line = std::string(what) + '\t' + fs::weakly_canonical(path, ignored).string() + '\t';
  line += second.empty() ? "\t\n" : fs::weakly_canonical(second, ignored).string() + "\t\n";
  if (::syscall(SYS_write, record.load(), line.data(), line.size()) < 0) std::abort();
  errno = error;
  return static_cast<Result>(result);
}

}  // namespace

void record_system_calls(const char* path) {
  const long next = path == nullptr ? -1 : ::syscall(SYS_open, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  const int before = record.exchange(static_cast<int>(next));
  if (before >= 0) ::close(before);
}

}  // namespace inkling

using namespace inkling;

// These stand in front of the C library's, for this program and for the libraries it loads.
extern "C" {

int rename(const char* from, const char* to) noexcept {
  if (const auto answered = answer("rename", to)) return *answered;
  return recorded(::syscall(SYS_rename, from, to), "rename", from, to);
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) noexcept {
  if (const auto answered = answer("renameat2", to)) return *answered;
  return recorded(::syscall(SYS_renameat2, from_folder, from, to_folder, to, flags), "rename", from, to);
}

int mkdir(const char* path, mode_t mode) noexcept {
  if (const auto answered = answer("mkdir", path)) return *answered;
  return recorded(::syscall(SYS_mkdir, path, mode), "create", path);
}

int rmdir(const char* path) noexcept {
  if (const auto answered = answer("rmdir", path)) return *answered;
  return static_cast<int>(::syscall(SYS_rmdir, path));
}

int unlink(const char* path) noexcept {
  if (const auto answered = answer("unlink", path)) return *answered;
  return static_cast<int>(::syscall(SYS_unlink, path));
}

int unlinkat(int folder, const char* path, int flags) noexcept {
  if (const auto answered = answer("unlinkat", path)) return *answered;
  return static_cast<int>(::syscall(SYS_unlinkat, folder, path, flags));
}

int flock(int descriptor, int operation) noexcept {
  if (const auto answered = answer("flock", path_of(descriptor))) return *answered;
  return static_cast<int>(::syscall(SYS_flock, descriptor, operation));
}

int fsync(int descriptor) {
  const std::string path = path_of(descriptor);
  if (const auto answered = answer("fsync", path)) return *answered;
  return recorded(::syscall(SYS_fsync, descriptor), "sync", path);
}

int open(const char* path, int flags, ...) {
  std::va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return recorded(::syscall(SYS_open, path, flags, mode), "create", (flags & O_CREAT) != 0 ? path : "");
}

ssize_t write(int descriptor, const void* bytes, std::size_t count) {
  const long written = ::syscall(SYS_write, descriptor, bytes, count);
  return recorded<ssize_t>(written, "write", record < 0 ? "" : path_of(descriptor));
}

ssize_t writev(int descriptor, const iovec* parts, int count) {
  const long written = ::syscall(SYS_writev, descriptor, parts, count);
  return recorded<ssize_t>(written, "write", record < 0 ? "" : path_of(descriptor));
}

ssize_t pwrite(int descriptor, const void* bytes, std::size_t count, off_t offset) {
  const long written = ::syscall(SYS_pwrite64, descriptor, bytes, count, offset);
  return recorded<ssize_t>(written, "write", record < 0 ? "" : path_of(descriptor));
}

}  // extern "C"
