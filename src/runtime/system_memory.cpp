#include "runtime/system_memory.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"

namespace inkling {
namespace {

struct GroupFiles {
  const char *limit, *used, *inactive, *active;
};
constexpr GroupFiles version1 = {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file",
                                 "total_active_file"};
constexpr GroupFiles version2 = {"memory.max", "memory.current", "inactive_file", "active_file"};

void lower(std::optional<std::uint64_t>& least, std::uint64_t value) { least = std::min(least.value_or(value), value); }

std::optional<std::uint64_t> kibibytes(const SystemFiles& files, std::string_view key) {
  const auto found = files.number("proc/meminfo", key);
  return found ? std::optional(*found * 1024) : std::nullopt;
}

}  // namespace

// /proc/self/cgroup has lines "0::/path" (version 2) and "4:memory:/path" or "4:cpu,cpuacct:/path" (version 1), and
// each group is in those above it.
std::vector<ControlGroup> control_groups(const SystemFiles& files, std::string_view resource) {
  std::vector<ControlGroup> groups;
  for (const std::string& line : files.lines("proc/self/cgroup")) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = str(",", line.substr(first + 1, second - first - 1), ",");
    const bool is_version2 = line.starts_with("0::");
    if (!is_version2 && controllers.find(str(",", resource, ",")) == std::string::npos) continue;
    const std::string root = is_version2 ? "sys/fs/cgroup" : str("sys/fs/cgroup/", resource);
    for (std::string path = line.substr(second + 1);;) {
      groups.push_back({root + path, is_version2});
      if (path.empty()) break;
      path.resize(path.find_last_of('/') == std::string::npos ? 0 : path.find_last_of('/'));
    }
  }
  return groups;
}

std::optional<std::uint64_t> SystemMemory::free() const {
  if (available && group_free) return std::min(*available, *group_free);
  return available ? available : group_free;
}

SystemMemory system_memory(const SystemFiles& files) {
  SystemMemory memory;
  memory.total = kibibytes(files, "MemTotal:");
  memory.available = kibibytes(files, "MemAvailable:");
  memory.swap_total = kibibytes(files, "SwapTotal:").value_or(0);
  memory.swap_free = kibibytes(files, "SwapFree:").value_or(0);
  for (const ControlGroup& group : control_groups(files, "memory")) {
    const GroupFiles& names = group.is_version2 ? version2 : version1;
    const auto most = files.number(group.folder / names.limit);  // the word "max" is no number
    if (!most) continue;
    const std::uint64_t taken = files.number(group.folder / names.used).value_or(0);
    const std::filesystem::path statistics = group.folder / "memory.stat";
    const std::uint64_t cached =
        files.number(statistics, names.inactive).value_or(0) + files.number(statistics, names.active).value_or(0);
    const std::uint64_t needed = taken - std::min(cached, taken);
    // Version 1 writes a number near 2^63 where there is no limit.
    if (!memory.total || *most < *memory.total) lower(memory.group_limit, *most);
    lower(memory.group_free, *most - std::min(needed, *most));
  }
  return memory;
}

std::uint64_t peak_resident_bytes() { return SystemFiles().number("proc/self/status", "VmHWM:").value_or(0) * 1024; }

}  // namespace inkling
