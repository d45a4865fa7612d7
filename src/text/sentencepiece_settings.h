// What a sentencepiece model says of itself that the library does not tell.
#pragma once

#include <string>
#include <string_view>

namespace inkling {

struct SentencepieceSettings {
  bool is_bpe = false;                   // or unigram
  bool add_dummy_prefix = true;          // a space in front of every text
  bool remove_extra_whitespaces = true;  // at the ends of a text, and several in a row
  bool normalizes = false;               // replaces characters by others
};

// Reads them from a model that the library has accepted (sentencepiece_model.proto).
SentencepieceSettings read_sentencepiece_settings(std::string_view serialized);

// The model with its pieces' scores rounded to multiples of 1/256. Sums of those are exact in float32 up to 65,536, so
// that ways of equal probability to cut a line are equal in every program, and the same one of them is taken.
std::string with_rounded_scores(std::string serialized);

}  // namespace inkling
