// config.json of a Hugging Face model folder: the shape of a GPT2LMHeadModel.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "model/weights.h"

namespace inkling {

// Returns JSON that transformers opens as it is. A model without biases is marked, as "inkling": {"bias": false}:
// Hugging Face's GPT-2 always has them, so its folder holds zeros. Without a separator bos and eos are null, since
// their default, 50256, lies outside most vocabularies.
std::string print_model_config(const GptShape& shape, double dropout, std::optional<std::uint64_t> separator);

// Returns the shape in folder/config.json. Throws Error input naming the field for what is missing or out of range, and
// for every setting that this program would compute differently from transformers.
GptShape read_model_config(const std::filesystem::path& folder);

}  // namespace inkling
