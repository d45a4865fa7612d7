// Writing model.safetensors of a Hugging Face model folder. (It is read by read_shape and load_weights of
// checkpoint.h.)
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "model/arena.h"
#include "model/gpt.h"

namespace inkling {

// Writes the tensors of a GPT2LMHeadModel in float32, with zeros for the biases that the model does not have, and
// without an output head, because that is the token embedding.
void write_model_weights(const std::filesystem::path& path, const GptShape& shape, const ParameterArena& arena);

// The name of a tensor that holds infinity or NaN; none if all are finite. It takes one pass over the arena, on its
// device.
std::optional<std::string> tensor_not_finite(const ParameterArena& arena);

}  // namespace inkling
