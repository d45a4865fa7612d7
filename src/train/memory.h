// How many bytes a run will hold, computed before it starts.
#pragma once

#include <cstdint>
#include <string>

#include "config/config.h"
#include "model/model.h"

namespace inkling {

// Returns what training with micro-batches of this size holds at its peak above LibTorch's own code and buffers.
TrainingBytes training_memory(const Config& config, const GptShape& shape, const Runtime& runtime,
                              std::int64_t micro_batch_size);

// Returns "training holds about 62 MiB: activations 40 MiB, …", the largest part first.
std::string describe_memory(const TrainingBytes& bytes);

// Returns the floating-point operations per trained token, forward and backward (Chowdhery et al. 2022, appendix B).
double flops_per_token(const GptShape& shape);

}  // namespace inkling
