// Writing model.safetensors of a Hugging Face model folder. (Reading it: read_shape and load_weights of
// checkpoint.h.)
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "model/arena.h"
#include "model/gpt.h"

namespace inkling {

// The tensors of a GPT2LMHeadModel, float32: zeros for the biases that the model has not; no output head, because it
// is the token embedding.
void write_model_weights(const std::filesystem::path& path, const GptShape& shape, const ParameterArena& arena);

// The name of a tensor that holds infinity or NaN; none if all are finite. One pass over the arena, on its device.
std::optional<std::string> tensor_not_finite(const ParameterArena& arena);

}  // namespace inkling
