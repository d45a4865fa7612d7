// Opening a tokenizer that was saved, one function for each kind that needs more than its settings: load_tokenizer()
// chooses among them.
#pragma once

#include <filesystem>
#include <memory>

#include "text/tokenizer.h"
#include "text/tokenizer_json.h"

namespace inkling {

// These throw Error input naming the file where a field is missing or has an impossible value.
std::unique_ptr<Tokenizer> open_char_tokenizer(const std::filesystem::path& folder, const TokenizerJson& fields);
std::unique_ptr<Tokenizer> open_sentencepiece_tokenizer(const std::filesystem::path& folder,
                                                        const TokenizerJson& fields);

}  // namespace inkling
