// tokenizer.model, a sentencepiece model as bytes (sentencepiece_model.proto): read and checked before the library sees
// it, which trusts what it loads.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/tokenizer_settings.h"
#include "formats/token_file.h"

namespace inkling {

// sentencepiece's sign for the space; a piece never holds a space itself.
inline constexpr std::string_view space_sign = "\xe2\x96\x81";  // U+2581

// The name of a piece with each U+2581 written as the space that it stands for.
std::string with_spaces(std::string name);

// The byte 10 of the name "<0x0A>"; none if it is nothing of the kind.
std::optional<char> byte_of_piece(const std::string& name);

enum class PieceType { text, user_defined, byte, control, unknown };

struct Piece {
  PieceType type;
  std::string bytes;  // what it stands for, spaces written as spaces; control: nothing
  std::string name;   // as the model writes it
  float score;        // log probability (unigram); minus its place among the merges (bpe)
};

struct SentencepieceFile {
  std::vector<Piece> pieces;     // by token
  bool is_bpe = false;           // or unigram
  bool add_dummy_prefix = true;  // a space in front of every text
};

// Throws Error input naming the field (normalizer_spec.remove_extra_whitespaces, pieces[7].score) where one is damaged,
// or has a value by which text would change or inkling's tokens would not be the library's.
SentencepieceFile read_sentencepiece_file(std::string_view serialized);

// Returns a unigram model of these pieces, whose texts are encoded as they are, without a dummy prefix.
std::string write_sentencepiece_file(const std::vector<Piece>& pieces, bool spells_bytes);

// The model as the library gets it: without its dummy prefix, and without what encoding does not need.
std::string sentencepiece_to_encode_by(std::string_view serialized);

// The model with its pieces' scores rounded to multiples of 1/256. Sums of those are exact in float32 up to 65,536, so
// that ways of equal probability to cut a line are equal in every program, and the same one of them is taken.
std::string with_rounded_scores(std::string serialized);

// The only door to the sentencepiece library: its headers are included in sentencepiece_library.cpp and nowhere else.

class SentencepieceModel {
 public:
  // Throws Error input naming the field (text/sentencepiece_file.h) if it is not a model that inkling computes.
  explicit SentencepieceModel(std::string serialized);
  ~SentencepieceModel();
  SentencepieceModel(const SentencepieceModel&) = delete;
  SentencepieceModel& operator=(const SentencepieceModel&) = delete;

  const std::string& serialized() const { return serialized_; }
  const SentencepieceFile& file() const { return file_; }
  const std::vector<Piece>& pieces() const { return file_.pieces; }

  bool spells_bytes() const { return byte_tokens_.has_value(); }  // so that it can encode every text

  // Throws Error input if `text` is not UTF-8, or holds characters that have neither a piece nor bytes to be spelled
  // by.
  void check(std::string_view text) const;

  // Appends the tokens of `text`, which check() has accepted, without the dummy prefix. U+2581, which the library would
  // turn into a space, is spelled in bytes, and so is a space that has no piece, which the library would turn into
  // U+2581. It is safe to call from several threads.
  void encode(std::string_view text, std::vector<Token>& tokens) const;

 private:
  struct Processor;

  bool has_character(char32_t character) const;

  std::string serialized_;
  SentencepieceFile file_;
  std::optional<std::array<Token, 256>> byte_tokens_;
  std::vector<char32_t> characters_;  // that are pieces, ascending
  std::unique_ptr<Processor> processor_;
};

// Trains on the sentences that `next` gives until it returns false. Returns a serialized model of at most
// config.vocab_size pieces. Throws Error input in sentencepiece's own words if it refuses. It prints to stderr, and
// where the library meets something it did not expect, it ends the process: so call it in run_in_child_process().
std::string train_sentencepiece_model(const TokenizerConfig& config, bool with_separator,
                                      const std::function<bool(std::string&)>& next);

// The library drops longer sentences from training without a word.
inline constexpr std::size_t max_sentence_bytes = 4192;

// It also drops sentences with this sign, which stands for rare characters inside the trainer.
inline constexpr std::string_view rare_sign = "\xe2\x96\x85";  // U+2585

}  // namespace inkling
