// The files by which Hugging Face's AutoTokenizer opens the tokenizer of a folder and gives inkling's tokens.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "formats/token_file.h"
#include "text/sentencepiece_library.h"

namespace inkling {

// What the separator is called there, for the kinds that have no name for it.
inline constexpr const char* separator_name = "<|endoftext|>";

// The texts of tokenizer.json. Only these texts are encoded otherwise there: the name of the separator or of a piece of
// a single byte (<0x0A>) in the text, characters that a char vocabulary lacks, which are left out, U+2581 for
// sentencepiece, and its lines of more than 64 KiB.
std::string print_byte_tokenizer(std::optional<Token> separator);
std::string print_char_tokenizer(std::span<const char32_t> code_points, std::optional<Token> separator);
std::string print_sentencepiece_tokenizer(const SentencepieceModel& model);

// Writes FOLDER/tokenizer.json and FOLDER/tokenizer_config.json. `separator` is its name there.
void write_hugging_face_files(const std::filesystem::path& folder, const std::string& tokenizer_json,
                              const std::optional<std::string>& separator);

}  // namespace inkling
