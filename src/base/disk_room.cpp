#include "base/disk_room.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <set>
#include <system_error>
#include <vector>

#include "base/strings.h"

namespace inkling {

DiskSpace disk_space(const std::filesystem::path& path) {
  std::error_code error;
  DiskSpace space{.folder = std::filesystem::absolute(path, error).lexically_normal()};
  std::filesystem::path& folder = space.folder;
  while (!std::filesystem::is_directory(folder, error) && folder.has_relative_path()) folder = folder.parent_path();
  struct stat status{};
  struct statvfs found{};
  if (::stat(folder.c_str(), &status) != 0 || ::statvfs(folder.c_str(), &found) != 0) return space;
  space.device = status.st_dev;
  space.total = std::uint64_t{found.f_blocks} * found.f_frsize;
  space.free = std::uint64_t{found.f_bavail} * found.f_frsize;
  return space;
}

std::uint64_t bytes_below(const std::filesystem::path& folder) {
  std::uint64_t bytes = 0;
  std::error_code error, of_entry;
  for (std::filesystem::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (!entry->is_regular_file(of_entry)) continue;
    const std::uint64_t size = entry->file_size(of_entry);
    if (!of_entry) bytes += size;
  }
  return bytes;
}

std::string describe_lack_of_room(std::span<const ToWrite> all) {
  std::vector<std::string> clauses;
  std::set<std::uint64_t> judged;
  for (const ToWrite& first : all) {
    const DiskSpace& disk = first.disk;
    if (disk.total == 0 || !judged.insert(disk.device).second) continue;
    std::uint64_t bytes = 0;
    std::vector<std::string> words;
    for (const ToWrite& each : all) {
      if (each.disk.device != disk.device || each.bytes == 0) continue;
      bytes += each.bytes;
      words.push_back(str(each.what, words.empty() ? " take about " : " ", format_bytes(each.bytes)));
    }
    if (bytes <= disk.free) continue;
    clauses.push_back(str(join(words, " and "), ", but ", format_bytes(disk.free), " are free on the disk of ",
                          disk.folder.string()));
  }
  return join(clauses, "; ");
}

}  // namespace inkling
