// How load_tokenizer() opens each kind. Error input naming the file where a field is missing or cannot be.
#pragma once

#include <filesystem>
#include <memory>

#include "text/tokenizer.h"
#include "text/tokenizer_json.h"

namespace inkling {

std::unique_ptr<Tokenizer> open_char_tokenizer(const std::filesystem::path& folder, const TokenizerJson& fields);
std::unique_ptr<Tokenizer> open_sentencepiece_tokenizer(const std::filesystem::path& folder,
                                                        const TokenizerJson& fields);

}  // namespace inkling
