// optimizer.safetensors: the states of the optimizer.
#pragma once

#include <cstdint>
#include <filesystem>

#include "model/arena.h"
#include "optim/optimizer.h"

namespace inkling {

// Writes every state of the optimizer for every parameter that has it, in float32, under the names that weights have in
// a GPT-2, whichever family the model is ("moment1.transformer.h.0.attn.c_attn.weight"); which optimizer it is and the
// number of updates made are in the file's metadata.
// Where the states are gathered from ranks it asks for one after the other, in the order of hand_over_optimizer(), so
// that rank 0 never holds two.
void write_optimizer(const std::filesystem::path& path, const OptimizerStates& optimizer);

// What the other ranks do meanwhile.
void hand_over_optimizer(const OptimizerStates& optimizer);

// Restores the states and the number of updates made, bit for bit. Of another optimizer's file it takes what both keep;
// the other states stay as they are, zero in a new optimizer, which is said. Throws Error input naming the file and the
// tensor or field that is wrong.
void load_optimizer(const std::filesystem::path& folder, const ParameterArena& arena, Optimizer& optimizer);

// Returns the number of updates made without reading a tensor. Throws Error input as load_optimizer does.
std::int64_t optimizer_steps(const std::filesystem::path& folder);

}  // namespace inkling
