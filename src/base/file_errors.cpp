#include "base/file_errors.h"

#include <cerrno>
#include <system_error>

#include "base/error.h"
#include "base/strings.h"

namespace inkling {

namespace {

std::string remedy(int code) {
  switch (code) {
    case ENOSPC:
    case EDQUOT:
      return "free some space there or write to another disk, then run again";
    case EACCES:
    case EPERM:
      return "check the permissions of the file and of its folders";
    case EROFS:
      return "write to a folder that is not read-only";
    case ENOENT:
    case ENOTDIR:
      return "check that the folder exists and that the name is spelled right";
    case EISDIR:
      return "it is a folder; give the name of a file";
    case EMFILE:
    case ENFILE:
      return "raise the limit of open files (ulimit -n)";
    case ENAMETOOLONG:
      return "choose a shorter name";
    case ELOOP:
      return "its symbolic links lead in a circle; give the name of a file";
    case EIO:
      return "the disk reports a fault; check it";
    case EFBIG:
      return "the file is larger than this disk or its limit (ulimit -f) allows";
    default:
      return "check the disk and the path";
  }
}

// Whether the name is at fault, and not the machine.
bool is_wrong_name(int code) {
  return code == ENOENT || code == ENOTDIR || code == EISDIR || code == ELOOP || code == ENAMETOOLONG ||
         code == ENXIO || code == ENODEV;  // the last two: a socket, a device without a driver
}

std::string reason(int code) { return errno_text(code) + "; " + remedy(code); }

}  // namespace

std::string errno_text(int code) { return std::generic_category().message(code); }

bool has_no_locks(int code) { return code == ENOLCK || code == ENOSYS || code == ENOTSUP || code == EINVAL; }

void throw_write_error(const std::string& verb, const std::filesystem::path& path, int code) {
  throw Error::environment(str("cannot ", verb, " ", path.string(), ": ", reason(code)));
}

void throw_read_error(const std::filesystem::path& path, int code) {
  const ErrorKind kind = is_wrong_name(code) ? ErrorKind::input : ErrorKind::environment;
  throw Error(kind, str("cannot read ", path.string(), ": ", reason(code)));
}

}  // namespace inkling
