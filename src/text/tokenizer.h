// Text to tokens and back. Three kinds: byte, char, sentencepiece.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/token_file.h"

namespace inkling {

// Encoding is defined line by line: a text is cut after every '\n' (lines above 64 KiB are cut at white space), each
// piece is encoded alone, and the results follow each other. So they do not depend on how a file was read.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual std::string kind() const = 0;            // "byte", "char", "sentencepiece"
  virtual std::uint64_t vocab_size() const = 0;    // all ids are below it, the separator's included
  // The token between documents, if this vocabulary has one.
  virtual std::optional<Token> separator() const = 0;

  // Appends the tokens of one piece (at most one line). Error input naming the characters it has no token for, or the
  // place of invalid UTF-8 (byte offset in `line`).
  virtual void encode_line(std::string_view line, std::vector<Token>& tokens) const = 0;

  // The bytes of one token; empty for the separator. `at_start` is true for the first token of a text.
  virtual std::string decode(Token token, bool at_start) const = 0;

  // Writes what load_tokenizer() reads into an existing folder: tokenizer.json of ours or tokenizer.model.
  virtual void save(const std::filesystem::path& folder) const = 0;

  // Identifies the vocabulary and its rules: equal hashes encode equally.
  virtual std::string hash() const = 0;
};

std::vector<Token> encode(const Tokenizer& tokenizer, std::string_view text);
std::string decode(const Tokenizer& tokenizer, std::span<const Token> tokens);

// Opens what save() wrote. Error input if the folder holds no tokenizer or a damaged one.
std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& folder);

// Cuts the next piece off the front of `text`: up to and with '\n', or at white space above 64 KiB.
// Returns its length in bytes; `complete` is false where more text may follow that belongs to the same line.
std::size_t next_line_length(std::string_view text);

}  // namespace inkling
