// optimizer.safetensors: the states of the optimizer.
#pragma once

#include <cstdint>
#include <filesystem>

#include "model/arena.h"
#include "optim/optimizer.h"

namespace inkling {

// Writes every state of the optimizer for every parameter of the arena, in float32, under the names that the weights
// have in model.safetensors ("moment1.transformer.h.0.attn.c_attn.weight"); the number of updates made is in the
// file's metadata.
void write_optimizer(const std::filesystem::path& path, const ParameterArena& arena, const Optimizer& optimizer);

// Restores the moments and the number of updates made, bit for bit. Throws Error input naming the file and the
// tensor or field that is wrong.
void load_optimizer(const std::filesystem::path& folder, const ParameterArena& arena, Optimizer& optimizer);

// Returns the number of updates made without reading a tensor. Throws Error input as load_optimizer does.
std::int64_t optimizer_steps(const std::filesystem::path& folder);

}  // namespace inkling
