// The files by which Hugging Face's AutoTokenizer opens the tokenizer of a folder and gives inkling's tokens.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "formats/token_file.h"
#include "text/foreign_tokenizer.h"

namespace inkling {

// What the separator is called there, for the kinds that have no name for it.
inline constexpr const char* separator_name = "<|endoftext|>";

// The texts of tokenizer.json. Only these texts are encoded otherwise there: the name of the separator or of a piece of
// a single byte (<0x0A>) in the text, characters that a char vocabulary lacks, which are left out, U+2581 for
// sentencepiece, and its lines of more than 64 KiB. With `foreign`, for a model made elsewhere, ties may be broken
// otherwise, too: between bpe's pieces of equal scores, and unigram's ways of equal probability.
// There is no text for a sentencepiece model whose merges alone would take more than 64 MiB of it.
std::string print_byte_tokenizer(std::optional<Token> separator);
std::string print_char_tokenizer(std::span<const char32_t> code_points, std::optional<Token> separator);
std::optional<std::string> print_sentencepiece_tokenizer(const SentencepieceModel& model,
                                                         const SentencepieceRules* foreign = nullptr);

// What stands in front of a prompt and between documents, by name.
struct DocumentTokens {
  std::optional<std::string> first, separator;
};

// Writes FOLDER/tokenizer.json and FOLDER/tokenizer_config.json. Without a text it warns and writes neither: a run must
// not lose a checkpoint for files that inkling does not read.
void write_hugging_face_files(const std::filesystem::path& folder, const std::optional<std::string>& tokenizer_json,
                              const DocumentTokens& tokens);

}  // namespace inkling
