// What a kind of tokenizer can do. Each kind defines its value in its own source file, and text/tokenizer.cpp lists
// them.
#pragma once

#include <filesystem>
#include <memory>

#include "text/build_tokenizer.h"
#include "text/tokenizer.h"
#include "text/tokenizer_json.h"

namespace inkling {

struct TokenizerFunctions {
  // The vocabulary's size is a setting, and its pieces are learned from the text.
  bool learns = false;
  // As build_tokenizer().
  std::unique_ptr<Tokenizer> (*build)(const TokenizerConfig& config, const ReadPieces& read, bool with_separator);
  // Throws Error input naming the file where a field is missing or has an impossible value.
  std::unique_ptr<Tokenizer> (*open)(const std::filesystem::path& folder, const TokenizerJson& fields);
};

}  // namespace inkling
