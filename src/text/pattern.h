// The patterns that cut a text into the words that byte-level BPE encodes one by one.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include "config/tokenizer_settings.h"
#include "text/unicode.h"

namespace inkling {

// Cuts one text, a few hundred words at a time. Every byte belongs to a word.
class PatternScanner {
 public:
  // `text` is well-formed UTF-8 and must outlive this.
  PatternScanner(Pattern pattern, std::string_view text);

  // Where the next words end, each beginning where the one before ends; empty at the end of the text. The answer is
  // valid until the next call.
  std::span<const char* const> next();

 private:
  const char* gpt2_word(const char* at) const;
  const char* cl100k_word(const char* at, bool final_space_is_one_word, int most_digits) const;
  const char* word_between_numbers(const char* at, bool each_digit);

  const char* contraction(const char* at, bool either_case) const;
  const char* past_run(const char* at, CharacterClass wanted) const;
  CharacterClass class_at(const char* at) const;

  Pattern pattern_;
  const UnicodeClasses& classes_;
  const char* at_;
  const char* end_;               // of the text, or of the stretch that is cut
  const char* number_ = nullptr;  // the first one behind the words that were cut, where numbers stand apart
  std::array<const char*, 256> ends_;
};

// The length of the longest front of `text`, at most `limit` bytes long, behind which all patterns have a boundary
// whatever comes in front and behind: between a letter and what is not one, between a number and what is not one, and
// before a space behind something that is not white space. Encoding both parts then gives the tokens of the whole.
// 0 if there is no such place. Beside what is not UTF-8 there is none; the last character may be incomplete.
std::size_t last_boundary(std::string_view text, std::size_t limit);

}  // namespace inkling
