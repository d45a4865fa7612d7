#include "runtime/cpu_memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string_view>

#include "base/error.h"
#include "base/strings.h"

namespace inkling {
namespace {

constexpr std::size_t alignment = 64;  // a cache line; there is as much room in front of each block for its size

class ReusingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    void* const memory = bytes == 0 ? nullptr : take(bytes);
    return {memory, memory, &free_tensor, at::kCPU};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &free_tensor; }

  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }

  CpuMemory memory() {
    const std::lock_guard lock(mutex_);
    return memory_;
  }

  void give_back_kept() {
    const std::lock_guard lock(mutex_);
    give_back();
  }

  static ReusingAllocator& only_one() {
    static auto* const allocator = new ReusingAllocator;  // outlives every tensor
    return *allocator;
  }

 private:
  static void free_tensor(void* memory) {
    if (memory != nullptr) only_one().keep(memory);
  }

  // The size of a block is stored in front of it.
  static std::size_t& size_of(void* memory) {
    return *reinterpret_cast<std::size_t*>(static_cast<char*>(memory) - alignment);
  }

  void* take(std::size_t bytes) {
    const std::size_t size = (bytes + alignment - 1) / alignment * alignment;
    const std::lock_guard lock(mutex_);
    const auto fitting = kept_.lower_bound(size);
    if (fitting != kept_.end() && fitting->first <= size + size / 4) {
      void* const memory = fitting->second;
      kept_.erase(fitting);
      return memory;
    }
    void* block = std::aligned_alloc(alignment, size + alignment);
    if (block == nullptr) {
      give_back();
      block = std::aligned_alloc(alignment, size + alignment);
    }
    if (block == nullptr) {
      throw OutOfMemory(ErrorKind::environment, str("out of memory: a tensor of ", format_bytes(size),
                                                    " was asked for when ", format_bytes(memory_.held), " were held"));
    }
    memory_.held += size + alignment;
    memory_.max_held = std::max(memory_.max_held, memory_.held);
    ++memory_.allocations;
    void* const memory = static_cast<char*>(block) + alignment;
    size_of(memory) = size;
    return memory;
  }

  void keep(void* memory) {
    const std::lock_guard lock(mutex_);
    kept_.emplace(size_of(memory), memory);
  }

  void give_back() {
    for (const auto& [size, memory] : kept_) {
      memory_.held -= size + alignment;
      std::free(static_cast<char*>(memory) - alignment);
    }
    kept_.clear();
  }

  std::mutex mutex_;
  std::multimap<std::size_t, void*> kept_;
  CpuMemory memory_;
};

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

void reuse_cpu_memory() { c10::SetCPUAllocator(&ReusingAllocator::only_one(), 1); }

void give_back_cpu_memory() { ReusingAllocator::only_one().give_back_kept(); }

CpuMemory cpu_memory() { return ReusingAllocator::only_one().memory(); }

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
