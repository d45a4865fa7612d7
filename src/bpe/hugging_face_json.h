// The rules of a tokenizer.json of Hugging Face, apart from its lists of tokens and merges.
#pragma once

#include <optional>
#include <string>

#include "bpe/bpe_settings.h"
#include "formats/json_fields.h"

namespace inkling {

struct HuggingFaceRules {
  Pattern pattern = Pattern::gpt2;
  bool words_are_tokens = false;                     // ignore_merges
  std::optional<std::string> first_token_name = {};  // what a post-processor puts in front of every text
};

// Throws Error input naming the field for everything that would give other tokens than inkling's.
HuggingFaceRules read_hugging_face_rules(const JsonFields& json);

}  // namespace inkling
