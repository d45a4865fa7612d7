// Writing optimizer.safetensors, and what it says about itself. (It is read by load_optimizer of checkpoint.h.)
#pragma once

#include <cstdint>
#include <filesystem>

#include "model/arena.h"
#include "optim/adamw.h"

namespace inkling {

// Writes "moment1.h.0.attn.c_attn.weight" and "moment2. …" for every parameter of the arena, in float32; the number of
// updates made is in the file's metadata.
void write_optimizer(const std::filesystem::path& path, const ParameterArena& arena, const AdamW& optimizer);

// Returns the number of updates made without reading a tensor. Throws Error input as load_optimizer does.
std::int64_t optimizer_steps(const std::filesystem::path& folder);

}  // namespace inkling
