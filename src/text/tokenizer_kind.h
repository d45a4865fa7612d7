// What a kind of tokenizer can do, and the file inkling_tokenizer.json, which says of which kind a folder's tokenizer
// is.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/token_file.h"
#include "text/bpe_vocabulary.h"
#include "text/build_tokenizer.h"
#include "text/tokenizer.h"

namespace inkling {

// The fields of inkling_tokenizer.json. Each kind has its own besides `kind` and `separator`.
struct TokenizerDescription {
  std::string kind;
  bool separator = false;
  std::optional<std::string> characters = {};  // char: every character of the vocabulary, in the order of the tokens
  std::optional<std::string> model_hash = {};  // hash_text() of tokenizer.model (sentencepiece), tokenizer.json (bpe)
  // bpe, and sentencepiece models made elsewhere: which of the tokens that stand for no text begins a prompt. The file
  // leaves first_token out where it is the separator, and says null where there is none.
  std::optional<Token> separator_token = {}, first_token = {};
  // Of sentencepiece models made elsewhere alone (text/foreign_tokenizer.h).
  std::optional<bool> prefix_space = {};
  std::vector<AddedToken> added_tokens = {};
};

// The text of the file: the same fields give the same text.
std::string print_description(const TokenizerDescription& description);

// Writes FOLDER/inkling_tokenizer.json.
void write_description(const std::filesystem::path& folder, const TokenizerDescription& description);

// Reads FOLDER/inkling_tokenizer.json, which older folders call tokenizer.json. Throws Error input naming the file if
// it is missing, damaged, another kind of file, or of a newer version.
TokenizerDescription read_description(const std::filesystem::path& folder);

// Whether the folder has one. Hugging Face's tokenizer.json is none.
bool holds_description(const std::filesystem::path& folder);

// The file that read_description(folder) reads.
std::filesystem::path description_path(const std::filesystem::path& folder);

// The name of a sentencepiece model in a folder.
inline constexpr const char* sentencepiece_file_name = "tokenizer.model";

// Reads FOLDER/NAME, a file that the description identifies by its model_hash. Throws Error input naming the file if it
// is another.
std::string read_described_file(const std::filesystem::path& folder, const char* name,
                                const TokenizerDescription& description);

// Throws the error for a file whose contents cannot be what save() wrote.
[[noreturn]] void refuse_tokenizer(const std::filesystem::path& path, const std::string& why);

// The hash of the files of a byte-level BPE that data.tokenizer.from names.
std::string hash_bpe_source(const std::string& from);

// Each kind defines its value in its own source file, and text/tokenizer.cpp lists them.
struct TokenizerFunctions {
  // Whether the vocabulary's size is a setting, because its pieces are learned from the text.
  bool (*learns)(const TokenizerConfig& config) = [](const TokenizerConfig&) { return false; };
  // As build_tokenizer().
  std::unique_ptr<Tokenizer> (*build)(const TokenizerConfig& config, const ReadParts& read, bool with_separator);
  // Throws Error input naming the file where a field is missing or has an impossible value.
  std::unique_ptr<Tokenizer> (*open)(const std::filesystem::path& folder, const TokenizerDescription& description);
};

// The errors that tokenizers share, worded once.

// Throws Error input naming the byte offset if `text` is not well-formed UTF-8.
void require_utf8(std::string_view text);

// Throws Error input if `token` is not below `vocab_size`.
void require_token(Token token, std::uint64_t vocab_size);

// Throws the error for characters without a token; `code_points` are distinct, in the order of the text.
[[noreturn]] void refuse_characters(std::span<const char32_t> code_points);

// The tokenizer of kind bpe.

// From a vocabulary made elsewhere: prompts begin with its first_token, if it has one. Throws Error input where it
// cannot encode every text.
std::unique_ptr<Tokenizer> make_bpe_tokenizer(BpeVocabulary vocabulary, std::optional<Token> separator);

}  // namespace inkling
