// What the tests of this floor share.
#pragma once

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <functional>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/strings.h"
#include "tests/temporary_folder.h"
#include "text/build_tokenizer.h"
#include "text/text_cuts.h"

namespace inkling {

// Code points of every plane, with the small ones, control characters and white space often. No surrogates.
inline rc::Gen<char32_t> any_code_point() {
  const auto between = [](char32_t low, char32_t high) {
    return rc::gen::map(rc::gen::inRange<std::uint32_t>(low, high), [](std::uint32_t c) { return char32_t{c}; });
  };
  return rc::gen::weightedOneOf<char32_t>({{6, between(0x20, 0x7f)},
                                           {3, rc::gen::element<char32_t>(' ', '\n', '\t', '\r', 0, 0xa0, 0x3000)},
                                           {2, between(0, 0x20)},
                                           {2, between(0x80, 0x800)},
                                           {2, between(0x800, 0xd800)},
                                           {1, between(0x2580, 0x2590)},
                                           {2, between(0xe000, 0x10000)},
                                           {2, between(0x10000, 0x110000)}});
}

inline std::string utf8(const std::vector<char32_t>& code_points) {
  std::string text;
  for (const char32_t code_point : code_points) append_utf8(text, code_point);
  return text;
}

inline rc::Gen<std::string> any_text() {
  return rc::gen::map(rc::gen::container<std::vector<char32_t>>(any_code_point()), utf8);
}

// A text with enough words for a small vocabulary: `lines` lines, the same on every call.
inline std::string sample_text(int lines) {
  const char* const words[] = {"the",   "Animal", "didn't", "cross", "street", "because", "it",    "was",  "too",
                               "tired", "über",   "café",   "naïve", "Straße", "rested",  "night", "moon", "silver"};
  std::string text;
  std::uint64_t state = 1;
  for (int line = 0; line < lines; ++line) {
    for (int word = 0; word < 8; ++word) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      if (word > 0) text += (state >> 60) == 0 ? "  " : " ";
      text += words[(state >> 33) % std::size(words)];
      text += std::to_string((state >> 40) % 10 == 0 ? (state >> 45) % 100 : 7).substr((state >> 40) % 10 == 0 ? 0 : 1);
    }
    text += ".\n";
  }
  return text;
}

// Feeds a text to a builder as data/ does.
template <typename Builder>
void add_lines(Builder& builder, std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = next_line_length(text);
    builder.add(text.substr(0, length));
    text.remove_prefix(length);
  }
}

inline std::unique_ptr<Tokenizer> char_tokenizer_of(std::string_view text, bool with_separator) {
  CharVocabularyBuilder builder;
  add_lines(builder, text);
  return builder.finish(with_separator);
}

inline std::unique_ptr<Tokenizer> train(const TokenizerConfig& config, std::string_view text, bool with_separator,
                                        std::uint64_t sample_bytes = 1 << 20) {
  SentencepieceTrainer trainer(config, sample_bytes);
  add_lines(trainer, text);
  return trainer.finish(with_separator);
}

// A tokenizer of kind bpe, learned from a text.
inline std::unique_ptr<Tokenizer> learn_bpe(std::uint64_t vocab_size, std::string_view text, bool with_separator) {
  const auto read = [&](const char*, const PartLength& part_length, const TakePart& take) {
    for (std::string_view rest = text; !rest.empty();) {
      const std::size_t length = part_length(rest, false);
      take(rest.substr(0, length), true);
      rest.remove_prefix(length);
    }
  };
  return build_tokenizer({.kind = TokenizerKind::bpe, .vocab_size = vocab_size}, read, with_separator);
}

}  // namespace inkling
