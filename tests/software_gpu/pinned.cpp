// Pinned memory, and the guards that stop the host from touching it while a copy is under way. The stand-in copies
// through a second view of the same pages, which no guard covers.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "runtime.h"

namespace software_gpu {
namespace {

constexpr std::size_t page_bytes = 4096;

struct Pinned {
  std::size_t bytes, mapped;
  std::byte* own;  // the second view; the memory itself where the program only registered it, which is never guarded
  bool is_registered;
};

struct PinnedMemory {
  std::map<std::byte*, Pinned> live;
  std::vector<Guard> guards;
  std::size_t taken = 0, peak = 0;
};

PinnedMemory& pinned_memory() {
  static PinnedMemory& memory = *new PinnedMemory;
  return memory;
}

auto find_pinned(const void* address) {
  auto& live = pinned_memory().live;
  auto* const at = static_cast<std::byte*>(const_cast<void*>(address));
  auto found = live.upper_bound(at);
  if (found == live.begin()) return live.end();
  --found;
  return at < found->first + found->second.bytes ? found : live.end();
}

std::byte* page_of(const std::byte* address) {
  const auto bits = reinterpret_cast<std::uintptr_t>(address);
  return reinterpret_cast<std::byte*>(bits / page_bytes * page_bytes);
}
std::byte* last_page_end(const std::byte* begin, std::size_t bytes) { return page_of(begin + bytes + page_bytes - 1); }

// Gives the pages of these bytes the protection that the guards upon them ask for, the strictest last.
void protect_pages(const std::byte* begin, std::size_t bytes) {
  std::byte *const first = page_of(begin), *const end = last_page_end(begin, bytes);
  mprotect(first, static_cast<std::size_t>(end - first), PROT_READ | PROT_WRITE);
  for (const bool is_written : {false, true}) {
    for (const Guard& guard : pinned_memory().guards) {
      std::byte* const from = std::max(first, page_of(guard.begin));
      std::byte* const to = std::min(end, last_page_end(guard.begin, guard.bytes));
      if (guard.is_written != is_written || from >= to) continue;
      mprotect(from, static_cast<std::size_t>(to - from), is_written ? PROT_NONE : PROT_READ);
    }
  }
}

cudaError_t take_pinned_memory(void** out, std::size_t bytes) {
  *out = nullptr;
  if (bytes == 0) return cudaSuccess;
  const std::size_t mapped = (bytes + page_bytes - 1) / page_bytes * page_bytes;
  const int file = memfd_create("software_gpu_pinned", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(mapped)) != 0) return cudaErrorMemoryAllocation;
  const auto map = [&] { return mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0); };
  void *const seen = map(), *const own = map();
  close(file);
  if (seen == MAP_FAILED || own == MAP_FAILED) return cudaErrorMemoryAllocation;
  if (computes()) std::memset(own, 0xff, mapped);
  PinnedMemory& memory = pinned_memory();
  memory.live[static_cast<std::byte*>(seen)] = {
      .bytes = bytes, .mapped = mapped, .own = static_cast<std::byte*>(own), .is_registered = false};
  memory.taken += mapped;
  memory.peak = std::max(memory.peak, memory.taken);
  *out = seen;
  return cudaSuccess;
}

cudaError_t give_pinned_memory(void* address) {
  PinnedMemory& memory = pinned_memory();
  const auto found = memory.live.find(static_cast<std::byte*>(address));
  if (found == memory.live.end() || found->second.is_registered) return cudaErrorInvalidValue;
  memory.taken -= found->second.mapped;
  munmap(found->second.own, found->second.mapped);
  munmap(address, found->second.mapped);
  memory.live.erase(found);
  return cudaSuccess;
}

}  // namespace

bool is_live_pinned_memory(const void* address, std::size_t bytes) {
  const auto found = find_pinned(address);
  if (found == pinned_memory().live.end()) return false;
  const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(address) - found->first);
  return bytes <= found->second.bytes - offset;
}

void* own_view_of_pinned(const void* address) {
  const auto& [seen, pinned] = *find_pinned(address);
  return pinned.own + (static_cast<const std::byte*>(address) - seen);
}

std::size_t peak_of_pinned_memory() { return pinned_memory().peak; }

MemoryKind kind_of(const void* address) {
  if (is_device_memory(address)) return MemoryKind::device;
  return is_live_pinned_memory(address, 1) ? MemoryKind::pinned : MemoryKind::pageable;
}

void raise_guard(const Guard& guard) {
  const auto found = find_pinned(guard.begin);
  if (found == pinned_memory().live.end() || found->second.is_registered) return;
  watch_faults();
  pinned_memory().guards.push_back(guard);
  protect_pages(guard.begin, guard.bytes);
}

void lower_guard(const Guard& guard) {
  std::vector<Guard>& guards = pinned_memory().guards;
  const auto found = std::find_if(guards.begin(), guards.end(), [&](const Guard& other) {
    return other.begin == guard.begin && other.bytes == guard.bytes && other.is_written == guard.is_written;
  });
  if (found == guards.end()) return;  // pardoned
  guards.erase(found);
  protect_pages(guard.begin, guard.bytes);
}

bool pardon_guarded(const void* address) {
  const auto* const at = static_cast<const std::byte*>(address);
  std::vector<Guard>& guards = pinned_memory().guards;
  bool found = false;
  for (std::size_t i = guards.size(); i-- > 0;) {
    const Guard guard = guards[i];
    if (at < page_of(guard.begin) || at >= last_page_end(guard.begin, guard.bytes)) continue;
    if (at >= guard.begin && at < guard.begin + guard.bytes) {  // or else it is only a neighbour on the same page
      complain(guard.is_written ? "the host touches pinned memory that a copy to the host is still to write"
                                : "the host writes pinned memory that a copy to the device is still to read");
    }
    guards.erase(guards.begin() + static_cast<std::ptrdiff_t>(i));
    protect_pages(guard.begin, guard.bytes);
    found = true;
  }
  return found;
}

void* on_host(const void* address) {
  const std::scoped_lock lock(mutex());
  if (is_device_memory(address)) return own_view_of_device(address);
  return is_live_pinned_memory(address, 1) ? own_view_of_pinned(address) : const_cast<void*>(address);
}

bool is_live(const void* address, std::size_t bytes) {
  const std::scoped_lock lock(mutex());
  return is_live_device_memory(address, bytes) || is_live_pinned_memory(address, bytes);
}

}  // namespace software_gpu

using namespace software_gpu;

extern "C" {

cudaError_t cudaHostAlloc(void** out, std::size_t bytes, unsigned) {
  return call("cudaHostAlloc", [&] {
    const cudaError_t refused = refuse_unsafe();
    return refused != cudaSuccess ? refused : take_pinned_memory(out, bytes);
  });
}

cudaError_t cudaMallocHost(void** out, std::size_t bytes) { return cudaHostAlloc(out, bytes, 0); }

cudaError_t cudaFreeHost(void* address) {
  return call("cudaFreeHost", [&] {
    if (address == nullptr) return cudaSuccess;
    if (const cudaError_t refused = refuse_unsafe()) return refused;
    count_wait("cudaFreeHost");
    run_everything();
    return give_pinned_memory(address);
  });
}

cudaError_t cudaHostRegister(void* address, std::size_t bytes, unsigned) {
  return call("cudaHostRegister", [&] {
    auto* const begin = static_cast<std::byte*>(address);
    if (address == nullptr || bytes == 0) return cudaErrorInvalidValue;
    pinned_memory().live[begin] = {.bytes = bytes, .mapped = 0, .own = begin, .is_registered = true};
    return cudaSuccess;
  });
}

cudaError_t cudaHostUnregister(void* address) {
  return call("cudaHostUnregister", [&] {
    const auto found = pinned_memory().live.find(static_cast<std::byte*>(address));
    if (found == pinned_memory().live.end() || !found->second.is_registered) return cudaErrorInvalidValue;
    run_everything();
    pinned_memory().live.erase(found);
    return cudaSuccess;
  });
}

cudaError_t cudaHostGetDevicePointer(void** out, void* address, unsigned) {
  return call("cudaHostGetDevicePointer", [&] {
    *out = address;
    return is_live_pinned_memory(address, 1) ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* out, const void* address) {
  return call("cudaPointerGetAttributes", [&] {
    auto* const writable = const_cast<void*>(address);
    *out = {};
    out->device = -2;  // CUDA's word for none
    switch (is_live(address, 1) ? kind_of(address) : MemoryKind::pageable) {
      case MemoryKind::device:
        out->type = cudaMemoryTypeDevice;
        out->device = device_of(address);
        out->devicePointer = writable;
        break;
      case MemoryKind::pinned:
        out->type = cudaMemoryTypeHost;
        out->device = 0;
        out->devicePointer = out->hostPointer = writable;
        break;
      case MemoryKind::pageable:
        out->type = cudaMemoryTypeUnregistered;
        out->hostPointer = writable;
        break;
    }
    return cudaSuccess;
  });
}

}  // extern "C"
