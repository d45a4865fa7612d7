#include "runtime/cpu_memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>

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

}  // namespace

void reuse_cpu_memory() { c10::SetCPUAllocator(&ReusingAllocator::only_one(), 1); }

void give_back_cpu_memory() { ReusingAllocator::only_one().give_back_kept(); }

CpuMemory cpu_memory() { return ReusingAllocator::only_one().memory(); }

}  // namespace inkling
