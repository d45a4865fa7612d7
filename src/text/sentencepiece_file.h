// tokenizer.model, a sentencepiece model as bytes (sentencepiece_model.proto): read and checked before the library sees
// it, which trusts what it loads.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace inkling {

// sentencepiece's sign for the space; a piece never holds a space itself.
inline constexpr std::string_view space_sign = "\xe2\x96\x81";  // U+2581

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

// The model as the library gets it: without its dummy prefix, and without what encoding does not need.
std::string sentencepiece_to_encode_by(std::string_view serialized);

// The model with its pieces' scores rounded to multiples of 1/256. Sums of those are exact in float32 up to 65,536, so
// that ways of equal probability to cut a line are equal in every program, and the same one of them is taken.
std::string with_rounded_scores(std::string serialized);

}  // namespace inkling
