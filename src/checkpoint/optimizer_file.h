// Writing optimizer.safetensors, and what it says of itself. (Reading it: load_optimizer of checkpoint.h.)
#pragma once

#include <cstdint>
#include <filesystem>

#include "model/arena.h"
#include "optim/adamw.h"

namespace inkling {

// "moment1.h.0.attn.c_attn.weight" and "moment2. …" for every parameter of the arena, float32; the number of updates
// made stands in the file's metadata.
void write_optimizer(const std::filesystem::path& path, const ParameterArena& arena, const AdamW& optimizer);

// The number of updates made. Reads no tensor. Error input as for load_optimizer.
std::int64_t optimizer_steps(const std::filesystem::path& folder);

}  // namespace inkling
