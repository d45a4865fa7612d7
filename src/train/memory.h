// How many bytes a run will hold, computed before it starts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/config.h"
#include "model/model.h"

namespace inkling {

struct MemoryPart {
  std::string what;
  std::uint64_t bytes = 0;
};

// Returns what training holds at its peak above LibTorch's own code and buffers, by parts, largest first.
std::vector<MemoryPart> training_memory(const Config& config, const GptShape& shape, const Runtime& runtime);
std::uint64_t total_bytes(const std::vector<MemoryPart>& parts);

// Returns "training holds about 62 MiB: weights, gradients and two moments 13 MiB, …".
std::string describe_memory(const std::vector<MemoryPart>& parts);

// Returns the floating-point operations per trained token, forward and backward (Chowdhery et al. 2022, appendix B).
double flops_per_token(const GptShape& shape, std::int64_t parameter_count);

// Returns the most resident memory of this process so far, in bytes.
std::uint64_t peak_resident_bytes();

}  // namespace inkling
