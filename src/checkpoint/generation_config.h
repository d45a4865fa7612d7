// generation_config.json of a Hugging Face model folder: at which tokens a text ends, and how tokens are drawn where
// nobody says otherwise.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/model_config.h"
#include "formats/token_file.h"

namespace inkling {

struct GenerationConfig {
  std::vector<Token> ends = {};                                                             // text ends at any of them
  std::optional<double> temperature = {}, top_p = {}, min_p = {}, repetition_penalty = {};  // 0: the likeliest token
  std::optional<std::uint64_t> top_k = {};
  std::string refused = {};  // what transformers would do and inkling does not, as a message; empty if there is nothing
};

// What inkling-sample does without flags, as JSON for transformers.
std::string print_generation_config(const TextEnds& ends);

// Reads FOLDER/generation_config.json, and `ends` from config.json where it does not say them; tokens from vocab_size
// on are left out. Throws Error input naming the field for a value of the wrong type.
GenerationConfig read_generation_config(const std::filesystem::path& folder, std::int64_t vocab_size);

}  // namespace inkling
