// What a kind of tokenizer can do, and the file tokenizer.json, which says of which kind a folder's tokenizer is.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "text/build_tokenizer.h"
#include "text/tokenizer.h"

namespace inkling {

// The fields of tokenizer.json. Each kind has its own besides `kind` and `separator`.
struct TokenizerJson {
  std::string kind;
  bool separator = false;
  std::optional<std::string> characters = {};  // char: every character of the vocabulary, in the order of the tokens
  std::optional<std::string> model_hash = {};  // sentencepiece: hash_text() of tokenizer.model
};

// The text of the file: the same fields give the same text.
std::string print_tokenizer_json(const TokenizerJson& fields);

// Reads FOLDER/tokenizer.json. Throws Error input naming the file if it is missing, damaged, another kind of file, or
// of a newer version.
TokenizerJson read_tokenizer_json(const std::filesystem::path& folder);

std::filesystem::path tokenizer_json_path(const std::filesystem::path& folder);

// Throws the error for a file whose contents cannot be what save() wrote.
[[noreturn]] void refuse_tokenizer(const std::filesystem::path& path, const std::string& why);

// Each kind defines its value in its own source file, and text/tokenizer.cpp lists them.
struct TokenizerFunctions {
  // The vocabulary's size is a setting, and its pieces are learned from the text.
  bool learns = false;
  // As build_tokenizer().
  std::unique_ptr<Tokenizer> (*build)(const TokenizerConfig& config, const ReadPieces& read, bool with_separator);
  // Throws Error input naming the file where a field is missing or has an impossible value.
  std::unique_ptr<Tokenizer> (*open)(const std::filesystem::path& folder, const TokenizerJson& fields);
};

}  // namespace inkling
