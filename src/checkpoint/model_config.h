// config.json of a Hugging Face model folder: which family of models it is, and the model's shape.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "formats/token_file.h"
#include "model/parameters.h"

namespace inkling {

// The families of models in Hugging Face's transformers that inkling reads and writes, and its own for every other.
enum class Family { gpt2, llama, mistral, qwen2, qwen3, inkling };

struct ModelDescription {
  GptShape shape;
  Family family = Family::gpt2;
  std::vector<std::string> unknown_keys = {};  // of config.json, which may shape the model and are not used
};

// Ends every message about config.json and about the index of its weights.
inline constexpr const char* model_remedy =
    "if the file is as it was published, choose another model; if not, fetch or save it again";

// Returns the family that describes the model, so that other programs open its checkpoints as they stand.
Family family_of(const GptShape& shape);

// Returns that family, or the one that it was before, if it describes the same model: a Mistral without a window is a
// Llama, too.
Family family_of(const GptShape& shape, std::optional<Family> before);

// Returns what keeps the model from being of another family than inkling's own ("model.logit_softcap"); none if it is.
std::vector<std::string> unknown_elsewhere(const GptShape& shape);

// The tokens that begin and end a text, which Hugging Face calls bos and eos.
struct TextEnds {
  std::optional<Token> first, last;
};

// What a folder says besides its model's shape, which the checkpoints of a run that starts from it say, too. Texts are
// JSON, and empty where the folder says nothing.
struct KeptConfig {
  std::optional<Family> family = {};
  std::string generation = {};        // generation_config.json
  std::string last = {}, first = {};  // eos_token_id and bos_token_id of config.json
};

// Returns JSON that transformers opens as it is. A GPT-2 without biases is marked, as "inkling": {"bias": false}:
// Hugging Face's always has them, so its folder holds zeros. Without such tokens bos and eos are null, since their
// default, 50256, lies outside most vocabularies.
std::string print_model_config(const ModelDescription& model, double dropout, const TextEnds& ends,
                               const KeptConfig& kept = {});

// Returns what folder/config.json describes. Throws Error input naming the field for what is missing or out of range,
// and for every setting that this program would compute differently from transformers (checkpoint/config_keys.h).
ModelDescription read_model_config(const std::filesystem::path& folder);

}  // namespace inkling
