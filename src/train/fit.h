// Whether a run fits into memory: asked before it begins, because on the CPU the system kills who takes too much
// without a word.
#pragma once

#include <cstdint>
#include <string>

#include "config/config.h"
#include "model/model.h"

namespace inkling {

// Bytes that training may hold: runtime.memory_limit_gib, or four fifths of what the machine and the control groups of
// this process have free now; on a GPU what is free there.
std::uint64_t memory_limit(const RuntimeConfig& config, at::Device device);

// training.micro_batch_size where it is a number; for `auto` the largest divisor of batch_size with which
// training_memory() is within `limit`. Error environment where what is asked for, or even one window at a time, is not:
// with what is needed for what, and what halves it. (On a GPU a number that is written is tried, whatever is said here,
// unless runtime.memory_limit_gib is set: there running out of memory is an error and no killing.)
std::int64_t fitting_micro_batch_size(const Config& config, const GptShape& shape, const Runtime& runtime,
                                      std::uint64_t limit);

// The next divisor of batch_size below `size`; 0 below 1.
std::int64_t smaller_micro_batch_size(std::int64_t batch_size, std::int64_t size);

// "training holds about …: …; training.micro_batch_size=8 halves the activations", for a config whose
// micro_batch_size is a number.
std::string describe_need(const Config& config, const GptShape& shape, const Runtime& runtime);

}  // namespace inkling
