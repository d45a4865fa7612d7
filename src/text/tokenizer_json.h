// tokenizer.json: which kind of tokenizer a folder holds, and its vocabulary if that is small enough to read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace inkling {

// The file's fields. Each kind has its own besides `kind` and `separator`.
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

}  // namespace inkling
