#include "runtime/system_memory.h"

#include <algorithm>
#include <string_view>

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
