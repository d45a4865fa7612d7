// Device memory: addresses that the host cannot touch, and the same pages at other addresses for the stand-in's own
// work. Addresses are never used twice, and what is not allocated can be touched at neither, so that every use of freed
// memory shows.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>

#include "runtime.h"

namespace software_gpu {
namespace {

constexpr std::size_t mebibyte = std::size_t{1} << 20, granule = 2 * mebibyte;  // CUDA maps memory in such pieces
constexpr std::size_t page = 4096;
constexpr std::size_t all_addresses = std::size_t{1} << 45;  // 32 TiB, of all devices
// Where nothing is computed, larger copies are not made.
constexpr std::size_t small_copy = 64 * 1024;

std::size_t round_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

struct DeviceMemory {
  std::byte *seen = nullptr, *own = nullptr;  // what programs get, and the stand-in's view
  int file = -1;
  std::map<std::size_t, std::size_t> live;  // bytes by offset
  std::vector<std::size_t> next, taken;     // of each device: the offset of its next allocation, bytes
  std::size_t peak = 0;

  std::size_t addresses_of_device() const { return all_addresses / static_cast<std::size_t>(device_count()); }
  std::size_t size() const { return static_cast<std::size_t>(number("MEMORY_MIB", 81080)) * mebibyte; }  // an H100's
  std::size_t context() const { return std::min(520 * mebibyte, size() / 4); }  // what CUDA itself takes
};

DeviceMemory& device_memory() {
  static DeviceMemory& memory = *new DeviceMemory;  // never destroyed: others' destructors free device memory
  return memory;
}

DeviceMemory& open_device_memory() {
  DeviceMemory& memory = device_memory();
  if (memory.seen != nullptr) return memory;
  memory.file = memfd_create("software_gpu", MFD_CLOEXEC);
  const auto map = [&] { return mmap(nullptr, all_addresses, PROT_NONE, MAP_SHARED | MAP_NORESERVE, memory.file, 0); };
  void* seen = MAP_FAILED;
  void* own = MAP_FAILED;
  if (memory.file >= 0 && ftruncate(memory.file, static_cast<off_t>(all_addresses)) == 0) {
    seen = map();
    own = map();
  }
  if (seen == MAP_FAILED || own == MAP_FAILED) end_with_mistake("this machine gives no addresses for device memory");
  for (void* const view : {seen, own}) madvise(view, all_addresses, MADV_DONTDUMP);
  for (int device = 0; device < device_count(); ++device) {
    memory.next.push_back(static_cast<std::size_t>(device) * memory.addresses_of_device());
    memory.taken.push_back(0);
  }
  memory.seen = static_cast<std::byte*>(seen);
  memory.own = static_cast<std::byte*>(own);
  watch_faults();
  return memory;
}

// The bytes from `address` to the end of its allocation; 0 where there is none.
std::size_t bytes_from(const void* address) {
  if (!is_device_memory(address)) return 0;
  const DeviceMemory& memory = open_device_memory();
  const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(address) - memory.seen);
  const auto next = memory.live.upper_bound(offset);
  if (next == memory.live.begin()) return 0;
  const auto [begin, bytes] = *std::prev(next);
  return offset < begin + bytes ? begin + bytes - offset : 0;
}

// Makes whole pages zero, which gives them back to the machine.
void forget(std::size_t offset, std::size_t bytes) {
  fallocate(open_device_memory().file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
            static_cast<off_t>(bytes));
}

}  // namespace

bool is_device_memory(const void* address) {
  const std::scoped_lock lock(mutex());
  const DeviceMemory& memory = device_memory();
  return memory.seen != nullptr && address >= memory.seen && address < memory.seen + all_addresses;
}

bool is_live_device_memory(const void* address, std::size_t bytes) {
  const std::size_t there = bytes_from(address);
  return there > 0 && bytes <= there;
}

void* own_view_of_device(const void* address) {
  const DeviceMemory& memory = open_device_memory();
  return memory.own + (static_cast<const std::byte*>(address) - memory.seen);
}

bool is_own_view_of_device(const void* address) {
  const DeviceMemory& memory = device_memory();
  return memory.own != nullptr && address >= memory.own && address < memory.own + all_addresses;
}

int device_of(const void* address) {
  if (!is_device_memory(address)) return -1;
  const DeviceMemory& memory = open_device_memory();
  const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(address) - memory.seen);
  return static_cast<int>(offset / memory.addresses_of_device());
}

std::size_t peak_of_device_memory() { return device_memory().peak; }

cudaError_t take_device_memory(void** out, std::size_t bytes) {
  DeviceMemory& memory = open_device_memory();
  const auto device = static_cast<std::size_t>(current_device());
  const std::size_t wanted = round_up(bytes, granule), free = memory.size() - memory.context() - memory.taken[device];
  const std::size_t offset = memory.next[device], end = (device + 1) * memory.addresses_of_device();
  *out = nullptr;
  if (bytes == 0) return cudaSuccess;
  if (bytes > free || wanted > free || wanted + granule > end - offset) return cudaErrorMemoryAllocation;
  memory.next[device] += wanted + granule;  // nothing lies behind it, for those who go beyond its end
  memory.taken[device] += wanted;
  std::size_t taken = 0;
  for (const std::size_t one : memory.taken) taken += one;
  memory.peak = std::max(memory.peak, taken);
  memory.live[offset] = bytes;
  mprotect(memory.own + offset, round_up(bytes, page), PROT_READ | PROT_WRITE);
  if (computes()) std::memset(memory.own + offset, 0xff, round_up(bytes, page));  // NaN in every format
  *out = memory.seen + offset;
  return cudaSuccess;
}

cudaError_t give_device_memory(void* address) {
  DeviceMemory& memory = open_device_memory();
  const auto offset = static_cast<std::size_t>(static_cast<std::byte*>(address) - memory.seen);
  const auto found = is_device_memory(address) ? memory.live.find(offset) : memory.live.end();
  if (found == memory.live.end()) return cudaErrorInvalidValue;
  const std::size_t bytes = round_up(found->second, page);
  memory.taken[static_cast<std::size_t>(device_of(address))] -= round_up(found->second, granule);
  memory.live.erase(found);
  mprotect(memory.own + offset, bytes, PROT_NONE);
  forget(offset, bytes);
  return cudaSuccess;
}

void copy_bytes(void* to, const void* from, std::size_t bytes) {
  if (computes()) {
    std::memmove(on_host(to), on_host(from), bytes);
    return;
  }
  const bool is_from_device = is_device_memory(from), is_to_device = is_device_memory(to);
  if (is_to_device && bytes > small_copy) return;
  std::vector<std::byte> between(is_from_device && is_to_device ? bytes : 0);
  void* const target = between.empty() ? on_host(to) : between.data();
  if (is_from_device) {  // read as a file, which leaves pages that nobody wrote unwritten
    const DeviceMemory& memory = open_device_memory();
    for (std::size_t got = 0; got < bytes;) {
      const off_t offset = static_cast<const std::byte*>(from) - memory.seen + static_cast<off_t>(got);
      const ssize_t more = pread(memory.file, static_cast<std::byte*>(target) + got, bytes - got, offset);
      if (more <= 0) end_with_mistake("device memory cannot be read");
      got += static_cast<std::size_t>(more);
    }
    from = target;
  }
  if (is_to_device || !is_from_device) std::memmove(on_host(to), on_host(from), bytes);
}

void fill_bytes(void* to, int value, std::size_t bytes) {
  if (computes() || bytes <= small_copy || !is_device_memory(to)) {
    std::memset(on_host(to), value, bytes);
    return;
  }
  const DeviceMemory& memory = open_device_memory();
  const auto begin = static_cast<std::size_t>(static_cast<std::byte*>(to) - memory.seen), end = begin + bytes;
  const std::size_t first = round_up(begin, page), last = end / page * page;
  std::memset(memory.own + begin, 0, first - begin);
  forget(first, last - first);
  std::memset(memory.own + last, 0, end - last);
}

}  // namespace software_gpu

using namespace software_gpu;

namespace {

// Whether a recording is to get no memory (LACK_IN_RECORDING=n): from the n-th request within recordings on, until that
// recording ends.
bool lacks_memory_here() {
  static long left = number("LACK_IN_RECORDING", 0);
  static std::optional<unsigned long> lacking;
  if (!is_capturing_here()) return false;
  if (left > 0 && --left == 0) lacking = totals().captures;
  return lacking == totals().captures;
}

}  // namespace

extern "C" {

cudaError_t cudaMalloc(void** out, std::size_t bytes) {
  return call("cudaMalloc", [&] {
    if (const cudaError_t refused = refuse_unsafe()) return refused;
    return lacks_memory_here() ? cudaErrorMemoryAllocation : take_device_memory(out, bytes);
  });
}

cudaError_t cudaFree(void* address) {
  return call("cudaFree", [&] {
    if (address == nullptr) return cudaSuccess;
    if (const cudaError_t refused = refuse_unsafe()) return refused;
    count_wait("cudaFree");
    run_everything();
    return give_device_memory(address);
  });
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return call("cudaMemGetInfo", [&] {
    const DeviceMemory& memory = open_device_memory();
    *total = memory.size();
    *free = memory.size() - memory.context() - memory.taken[static_cast<std::size_t>(current_device())];
    return cudaSuccess;
  });
}

}  // extern "C"
