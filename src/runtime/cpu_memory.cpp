#include "runtime/cpu_memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <list>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/strings.h"

namespace inkling {
namespace {

constexpr std::size_t alignment = 64;  // a cache line; there is as much room in front of each block for its label
constexpr std::size_t page = 4096, huge_page = std::size_t{2} << 20;
constexpr std::size_t bytes_of_region = std::size_t{16} << 20;
constexpr std::size_t smallest_in_region = std::size_t{32} << 10;  // smaller blocks are malloc's

constexpr std::size_t rounded_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

// Memory from the system in which blocks lie side by side, in huge pages where it has them: with pages of 4 KiB a step
// spends a twentieth of its time on finding out where they are.
class Region {
 public:
  explicit Region(std::size_t bytes) : size_(rounded_up(std::max(bytes, bytes_of_region), page)) {
    void* const found = mmap(nullptr, size_ + huge_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (found == MAP_FAILED) return;
    // What lies in front of the first huge page and behind the last block goes back.
    char* const mapped = static_cast<char*>(found);
    const std::size_t before =
        rounded_up(reinterpret_cast<std::uintptr_t>(found), huge_page) - reinterpret_cast<std::uintptr_t>(found);
    if (before > 0) munmap(mapped, before);
    begin_ = mapped + before;
    if (before < huge_page) munmap(begin_ + size_, huge_page - before);
    madvise(begin_, size_, MADV_HUGEPAGE);  // a wish
  }
  ~Region() {
    if (begin_ != nullptr) munmap(begin_, size_);
  }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  std::size_t room() const { return begin_ == nullptr ? 0 : size_ - taken_; }

  // Returns null where there is no room.
  void* take(std::size_t bytes) { return room() < bytes ? nullptr : begin_ + std::exchange(taken_, taken_ + bytes); }

  std::int64_t tensors = 0;  // whose memory lies here

 private:
  char* begin_ = nullptr;
  std::size_t size_, taken_ = 0;
};

// Blocks that are kept. Threads have shelves of their own, so that none waits for another one to take or keep a block.
struct Shelf {
  std::mutex mutex;
  std::multimap<std::size_t, void*> kept;
  std::list<Region> regions;  // the last one has room
};

// What is stored in front of a block. It goes back to the shelf that it was taken from, whoever frees it.
struct Label {
  std::size_t size;
  Shelf* shelf;
  Region* region;  // null: malloc's
};
static_assert(sizeof(Label) <= alignment);

Label& label_of(void* memory) { return *reinterpret_cast<Label*>(static_cast<char*>(memory) - alignment); }

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
    for (Shelf& shelf : shelves_) {
      const std::lock_guard lock(shelf.mutex);
      std::erase_if(shelf.kept, [&](const auto& block) {
        const auto [size, memory] = block;
        const Region* const region = label_of(memory).region;
        if (region != nullptr && region->tensors > 0) return false;
        count([bytes = size](CpuMemory& all) { all.held -= bytes + alignment; });
        if (region == nullptr) std::free(static_cast<char*>(memory) - alignment);
        return true;
      });
      shelf.regions.remove_if([](const Region& region) { return region.tensors == 0; });
    }
  }

  static ReusingAllocator& only_one() {
    static auto* const allocator = new ReusingAllocator;  // outlives every tensor
    return *allocator;
  }

 private:
  static void free_tensor(void* memory) {
    if (memory == nullptr) return;
    const auto [size, shelf, region] = label_of(memory);
    const std::lock_guard lock(shelf->mutex);
    shelf->kept.emplace(size, memory);
    if (region != nullptr) --region->tensors;
  }

  Shelf& own_shelf() {
    thread_local const std::size_t number = threads_.fetch_add(1, std::memory_order_relaxed);
    return shelves_[number % shelves_.size()];
  }

  void* take(std::size_t bytes) {
    const std::size_t size = rounded_up(bytes, alignment);
    Shelf& shelf = own_shelf();
    if (void* const kept = take_kept(shelf, size)) return kept;
    void* memory = make_block(shelf, size);
    if (memory == nullptr) {
      give_back_kept();
      memory = make_block(shelf, size);
    }
    if (memory == nullptr) {
      throw OutOfMemory(ErrorKind::environment,
                        str("out of memory: a tensor of ", format_bytes(size), " was asked for when ",
                            format_bytes(this->memory().held), " were held"));
    }
    count([&](CpuMemory& all) {
      all.held += size + alignment;
      all.max_held = std::max(all.max_held, all.held);
      ++all.allocations;
    });
    return memory;
  }

  static void* take_kept(Shelf& shelf, std::size_t size) {
    const std::lock_guard lock(shelf.mutex);
    const auto fitting = shelf.kept.lower_bound(size);
    if (fitting == shelf.kept.end() || fitting->first > size + size / 4) return nullptr;
    void* const memory = fitting->second;
    shelf.kept.erase(fitting);
    if (Region* const region = label_of(memory).region) ++region->tensors;
    return memory;
  }

  // A large block has a region of its own, which comes in front of those with room.
  static Region& region_for(std::list<Region>& regions, std::size_t bytes) {
    if (bytes > bytes_of_region / 4) return regions.emplace_front(bytes);
    if (regions.empty() || regions.back().room() < bytes) regions.emplace_back(bytes);
    return regions.back();
  }

  // Returns null where the system has no more memory.
  static void* make_block(Shelf& shelf, std::size_t size) {
    const std::size_t bytes = size + alignment;
    Region* region = nullptr;
    void* block = nullptr;
    if (size < smallest_in_region) {
      block = std::aligned_alloc(alignment, bytes);
    } else {
      const std::lock_guard lock(shelf.mutex);
      region = &region_for(shelf.regions, bytes);
      block = region->take(bytes);
      if (block != nullptr) ++region->tensors;
    }
    if (block == nullptr) return nullptr;
    void* const memory = static_cast<char*>(block) + alignment;
    label_of(memory) = {size, &shelf, region};
    return memory;
  }

  template <typename Change>
  void count(const Change& change) {
    const std::lock_guard lock(mutex_);
    change(memory_);
  }

  std::array<Shelf, 64> shelves_;  // where there are more threads, some share one
  std::atomic<std::size_t> threads_ = 0;
  std::mutex mutex_;  // of memory_
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
