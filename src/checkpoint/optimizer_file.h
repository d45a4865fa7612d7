// Writing optimizer.safetensors. (Reading it: load_optimizer of checkpoint.h.)
#pragma once

#include <filesystem>

#include "model/arena.h"
#include "optim/adamw.h"

namespace inkling {

// "moment1.h.0.attn.c_attn.weight" and "moment2. …" for every parameter of the arena, float32; the number of updates
// made stands in the file's metadata.
void write_optimizer(const std::filesystem::path& path, const ParameterArena& arena, const AdamW& optimizer);

}  // namespace inkling
