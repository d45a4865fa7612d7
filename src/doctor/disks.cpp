// find_disk() of machine.h.
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <sstream>

#include "base/disk_room.h"
#include "base/file_errors.h"
#include "base/strings.h"
#include "doctor/machine.h"

namespace inkling::doctor {
namespace {

bool holds(const std::string& mount, const std::string& path) {
  return mount == "/" || path == mount || path.starts_with(mount + "/");
}

// The kind of the file system that holds `path`, from lines "36 35 98:0 /root /mount options - ext4 device …".
std::string kind_of(const SystemFiles& files, const std::filesystem::path& path) {
  std::string kind;
  std::size_t longest = 0;
  for (const std::string& line : files.lines("proc/self/mountinfo")) {
    std::istringstream words(line);
    std::string skipped, mount;
    words >> skipped >> skipped >> skipped >> skipped >> mount;
    const std::size_t mark = line.find(" - ");
    if (mark == std::string::npos || !holds(mount, path.string()) || mount.size() < longest) continue;
    longest = mount.size();  // a later line of the same place is mounted over it
    kind = line.substr(mark + 3, line.find(' ', mark + 3) - mark - 3);
  }
  return kind;
}

}  // namespace

Disk find_disk(const SystemFiles& files, const std::string& use, const std::filesystem::path& path) {
  const DiskSpace space = disk_space(path);
  const std::filesystem::path& folder = space.folder;
  Disk disk{
      .use = use, .path = folder.string(), .kind = kind_of(files, folder), .total = space.total, .free = space.free};
  struct statvfs found{};
  if (::statvfs(folder.c_str(), &found) == 0) {
    disk.free_files = found.f_favail;
    disk.all_files = found.f_files;
  }
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    disk.is_writable = false;
    disk.why_not = errno_text(errno);
  }
  return disk;
}

}  // namespace inkling::doctor
