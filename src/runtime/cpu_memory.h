// Memory of tensors on the CPU: kept when a tensor is freed, for the next one of its size, and counted.
//
// A training step asks for the same sizes again and again. With malloc, large blocks go back to the system and come
// again page by page: a fifth of the step time of a large model, and how much is held depends on the machine's luck.
#pragma once

#include <cstdint>

#include "base/error.h"

namespace inkling {

// An Error environment. (On a GPU it is a c10::OutOfMemoryError.)
class OutOfMemory : public Error {
  using Error::Error;
};

// From now on, tensors on the CPU take their memory from blocks that are kept. To be called before there are tensors
// whose memory matters; calling it again changes nothing. Where the system has no more memory, blocks that nobody uses
// are given back first; then a tensor that cannot be had is OutOfMemory, saying how many bytes were asked for.
void reuse_cpu_memory();

// Gives blocks that nobody uses back to the system: before and after work whose sizes are not those of a training step.
void give_back_cpu_memory();

struct CpuMemory {
  std::uint64_t held = 0;         // bytes taken from the system: of tensors that live, and of blocks kept for later
  std::uint64_t max_held = 0;     // at its peak
  std::uint64_t allocations = 0;  // how often memory was taken from the system
};

// Of all blocks taken since reuse_cpu_memory().
CpuMemory cpu_memory();

}  // namespace inkling
