#include "tests/system_calls.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

namespace inkling {

std::function<int(std::string_view call, const std::string& path)> on_system_call;

namespace {

// The path of an open file, as far as the kernel knows it.
std::string path_of(int descriptor) {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(descriptor), ignored).string();
}

// Makes the system call unless the test wants it otherwise.
template <typename... Arguments>
int watched(std::string_view call, const std::string& path, long number, Arguments... arguments) {
  const int code = on_system_call ? on_system_call(call, path) : 0;
  if (code == skip_call) return 0;
  if (code != 0) {
    errno = code;
    return -1;
  }
  return static_cast<int>(::syscall(number, arguments...));
}

}  // namespace
}  // namespace inkling

// These stand in front of the C library's, for this program and for the libraries it loads.
extern "C" {

int rename(const char* from, const char* to) noexcept {
  return inkling::watched("rename", to, SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) noexcept {
  return inkling::watched("renameat2", to, SYS_renameat2, from_folder, from, to_folder, to, flags);
}

int mkdir(const char* path, mode_t mode) noexcept {
  return inkling::watched("mkdir", path, SYS_mkdirat, AT_FDCWD, path, mode);
}

int rmdir(const char* path) noexcept {
  return inkling::watched("rmdir", path, SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
}

int unlink(const char* path) noexcept { return inkling::watched("unlink", path, SYS_unlinkat, AT_FDCWD, path, 0); }

int unlinkat(int folder, const char* path, int flags) noexcept {
  return inkling::watched("unlinkat", path, SYS_unlinkat, folder, path, flags);
}

int fsync(int descriptor) { return inkling::watched("fsync", inkling::path_of(descriptor), SYS_fsync, descriptor); }

int flock(int descriptor, int operation) noexcept {
  return inkling::watched("flock", inkling::path_of(descriptor), SYS_flock, descriptor, operation);
}

}  // extern "C"
