// The only door to the sentencepiece library: its headers are included in sentencepiece_library.cpp and nowhere else.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "formats/token_file.h"
#include "text/sentencepiece_settings.h"

namespace inkling {

// sentencepiece's sign for the space; a piece never holds a space itself.
inline constexpr std::string_view space_sign = "\xe2\x96\x81";  // U+2581

enum class PieceType { text, byte, separator, unknown };

struct Piece {
  PieceType type;
  std::string bytes;  // text: what it stands for, spaces written as spaces; byte: that byte; empty otherwise
  std::string name;   // as the model writes it
  float score;        // log probability (unigram); minus its place among the merges (bpe)
};

class SentencepieceModel {
 public:
  explicit SentencepieceModel(std::string serialized);  // Error input if it is not a model
  ~SentencepieceModel();
  SentencepieceModel(const SentencepieceModel&) = delete;
  SentencepieceModel& operator=(const SentencepieceModel&) = delete;

  const std::string& serialized() const { return serialized_; }
  const SentencepieceSettings& settings() const { return settings_; }
  std::vector<Piece> pieces() const;  // by token

  // Appends the tokens of `text`: UTF-8 without U+2581.
  void encode(std::string_view text, std::vector<Token>& tokens) const;

 private:
  struct Processor;
  std::string serialized_;
  SentencepieceSettings settings_;
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
