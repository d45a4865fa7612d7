// Text to tokens and back. There are four kinds of tokenizer: byte, char, sentencepiece, bpe.
//
// A vocabulary is made once (text/build_tokenizer.h), saved beside the token files and opened again by
// load_tokenizer(). Two laws hold for every tokenizer, and its users rely on them:
//   decode(encode(s)) == prefix_of(s) + s     for every text it can encode that is not empty, byte for byte; where a
//                                             tokenizer made elsewhere normalizes texts, s is the normalized one, and
//                                             one that prepends a space behind added tokens has these spaces as well
//   decode(a + b) == decode(a) + decode(b)    for tokens a, b: each token stands for fixed bytes of its own
#pragma once

#include <cstddef>
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

namespace inkling {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual std::string kind() const = 0;          // "byte", "char", "sentencepiece", "bpe"
  virtual std::uint64_t vocab_size() const = 0;  // all ids are below it, the separator's included
  // The token between documents, if this vocabulary has one. No text encodes to it; it stands for no bytes.
  virtual std::optional<Token> separator() const = 0;
  // The token in front of a prompt, which is the beginning of a document: the separator, or what a tokenizer made
  // elsewhere has there.
  virtual std::optional<Token> first_token() const { return separator(); }

  // All tokens that stand for no text, the separator among them, with their names. The name of one in a text is
  // ordinary text.
  virtual std::vector<AddedToken> special_tokens() const = 0;

  // What the tokens of every document begin with and its text does not: the space of a sentencepiece model with a dummy
  // prefix, or of a tokenizer.json with one. Nothing for every vocabulary that inkling has learned.
  virtual std::string_view prefix() const { return {}; }
  // The prefix as this text gets it: some tokenizers made elsewhere put none in front of a text that begins with it or
  // with an added token.
  virtual std::string_view prefix_of(std::string_view) const { return prefix(); }

  // Whether what stands behind this special token in a prompt begins as a document does, with the prefix.
  virtual bool begins_text(Token special) const { return special == first_token() || special == separator(); }

  // Throws Error input if `text` cannot be encoded: if it is not UTF-8 (naming the byte offset in `text`), or holds
  // characters without a token (naming ten of them at most). The byte tokenizer takes everything.
  virtual void check(std::string_view text) const = 0;

  // The length in bytes of the first part of `text` that is encoded alone, such that the tokens of all parts are those
  // of the whole; 0 if it is empty. Parts have some 256 KiB, so that several threads can share a text.
  // Where `text` is the front of a longer text that is still being read, say more_may_follow: then the answer is 0
  // until it is certain.
  virtual std::size_t part_length(std::string_view text, bool more_may_follow = false) const;

  // Appends the tokens of one part; those of the prefix come with the part that begins a document. Throws what
  // check(part) throws, and then leaves `tokens` as it was. It is safe to call from several threads.
  virtual void encode_part(std::string_view part, bool begins_document, std::vector<Token>& tokens) const = 0;

  // Returns the bytes of one token, which may be part of a UTF-8 character. Throws Error input if token >=
  // vocab_size().
  virtual std::string decode(Token token) const = 0;

  // Writes what load_tokenizer() reads into an existing folder: inkling_tokenizer.json, for sentencepiece also
  // tokenizer.model, and for bpe tokenizer.json; and what Hugging Face's AutoTokenizer reads: tokenizer.json and
  // tokenizer_config.json.
  virtual void save(const std::filesystem::path& folder) const = 0;

  // Identifies the vocabulary and its rules: tokenizers with equal hashes encode alike.
  virtual std::string hash() const = 0;
};

// Opens what save() wrote, or the tokenizer of a model folder made elsewhere (text/foreign_tokenizer.h). Throws Error
// input if the folder holds no tokenizer or a damaged one.
std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& folder);

// Whether the folder holds a tokenizer that load_tokenizer() knows by its files' names.
bool holds_tokenizer(const std::filesystem::path& folder);

// The token that stands in front of every document of a corpus: first_token(), unless that is the separator, which
// stands behind the document before.
std::optional<Token> document_start(const Tokenizer& tokenizer);

// The token that a document begins with for a model: first_token(), or else the separator, though a corpus has that
// behind the document before. None if the vocabulary has neither.
std::optional<Token> token_in_front(const Tokenizer& tokenizer);

// Returns what a model that has learned `known` would misunderstand in documents of `tokenizer`: "token 5 is … here and
// … there"; none if there is nothing. Where only one of them has a separator, that is nothing.
std::optional<std::string> misunderstanding(const Tokenizer& tokenizer, const Tokenizer& known);

// The number of the special token of this name; none if there is no such token.
std::optional<Token> find_special_token(const Tokenizer& tokenizer, std::string_view name);

// Encodes a whole document, or what goes on from the middle of one, part by part. Throws what tokenizer.check(text)
// throws.
std::vector<Token> encode(const Tokenizer& tokenizer, std::string_view text, bool begins_document = true);
std::string decode(const Tokenizer& tokenizer, std::span<const Token> tokens);

}  // namespace inkling
