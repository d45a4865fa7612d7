// Memory for tensors on the CPU, counted: when a tensor is freed, its block is kept for the next one of its size.
//
// A training step asks for the same sizes again and again. Malloc gives large blocks back to the system and takes them
// again page by page: that is a fifth of the step time of a large model, and how much is held differs from run to run.
#pragma once

#include <cstdint>
#include <optional>

#include "base/error.h"
#include "base/system_files.h"

namespace inkling {

// Error environment: there is no memory for a tensor on the CPU. (On a GPU LibTorch throws c10::OutOfMemoryError.)
class OutOfMemory : public Error {
  using Error::Error;
};

// Makes tensors on the CPU take their memory from blocks that are kept. Call it before there are tensors whose memory
// matters; calling it again changes nothing. Where the system has no more memory, unused blocks are given back first.
// If that is not enough, making a tensor throws OutOfMemory, which says how many bytes were asked for.
void reuse_cpu_memory();

// Gives unused blocks back to the system. Call it before and after work whose sizes are not those of a training step.
void give_back_cpu_memory();

struct CpuMemory {
  std::uint64_t held = 0;         // bytes taken from the system, for tensors and for blocks that are kept
  std::uint64_t max_held = 0;     // the most that was held at any time
  std::uint64_t allocations = 0;  // how often memory was taken from the system
};

// Counts all blocks taken since reuse_cpu_memory().
CpuMemory cpu_memory();

// What main memory there is for this process.

struct SystemMemory {
  std::optional<std::uint64_t> total = {}, available = {};  // bytes of the machine; none where it does not say
  std::uint64_t swap_total = 0, swap_free = 0;
  std::optional<std::uint64_t> group_limit = {};  // the lowest that a control group of this process sets
  std::optional<std::uint64_t> group_free = {};   // the least that any leaves free; files in its cache count as free

  // What can be taken now: the lower of available and group_free; none if neither is known.
  std::optional<std::uint64_t> free() const;
};

SystemMemory system_memory(const SystemFiles& files = SystemFiles());

// Returns the most resident memory of this process so far, in bytes.
std::uint64_t peak_resident_bytes();

}  // namespace inkling
