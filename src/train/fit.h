// Whether a run fits into memory. It is asked before the run begins, because on the CPU the system ends a process that
// takes too much without a message.
#pragma once

#include <cstdint>
#include <string>

#include "config/config.h"
#include "model/model.h"

namespace inkling {

// Returns the bytes that training may hold: runtime.memory_limit_gib, or else what is free now on the GPU, or four
// fifths of what the machine and the control groups of this process have free now.
std::uint64_t memory_limit(const RuntimeConfig& config, at::Device device);

// Returns training.micro_batch_size where it is a number, and for `auto` the largest divisor of batch_size with which
// training_memory() is within `limit`. Throws Error environment if that number, or even one window at a time, is not
// within it; the message says what needs how much and what to lower. (A GPU is tried all the same unless
// runtime.memory_limit_gib is set, because there a lack of memory is an error that can be reported.)
std::int64_t fitting_micro_batch_size(const Config& config, const GptShape& shape, const Runtime& runtime,
                                      std::uint64_t limit);

// Returns "training holds about …: …. training.micro_batch_size: 4 instead of 8 halves all but the weights (…)".
std::string describe_need(const Config& config, const GptShape& shape, const Runtime& runtime,
                          std::int64_t micro_batch_size);

}  // namespace inkling
