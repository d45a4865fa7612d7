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

// What the file says of one setting. A value that cannot be used is only an error for whoever wants to use it, as a
// flag may say something else.
template <typename T>
struct UsualSetting {
  std::optional<T> value = {};
  std::string problem = {};  // what is wrong with the value, as a message; empty if nothing is

  T or_else(T otherwise) const;  // Throws Error input with the problem.
};

struct GenerationConfig {
  std::vector<Token> ends = {};           // a text ends at any of them
  UsualSetting<double> temperature = {};  // 0: the likeliest token
  UsualSetting<double> top_p = {}, min_p = {}, repetition_penalty = {};
  UsualSetting<std::uint64_t> top_k = {};  // 0: off
  std::string refused = {};  // what transformers would do and inkling does not, as a message; empty if there is nothing
};

// Reads it from a checkpoint or a folder from elsewhere. Warns of a generation_config.json that is no JSON, which is
// not kept.
KeptConfig read_kept_config(const std::filesystem::path& folder);

// The JSON of eos_token_id for texts that end with `last`: what was kept, a list or one token, if `last` is in it or
// unknown.
std::string print_ends(const std::string& kept, std::optional<Token> last);

// Returns the file that was kept, with the ends of texts as training has them; without one, what inkling-sample does
// without flags, as JSON for transformers.
std::string print_generation_config(const TextEnds& ends, const KeptConfig& kept = {});

// Reads FOLDER/generation_config.json, and `ends` from config.json where it does not say them; tokens from vocab_size
// on are left out. Throws Error input for a file that is no JSON and for ends of the wrong type. Only who samples reads
// it: nothing in it stops an evaluation.
GenerationConfig read_generation_config(const std::filesystem::path& folder, std::int64_t vocab_size);

}  // namespace inkling
