// Where a text may be cut for a sentencepiece model that was made elsewhere, whose pieces need not stay inside lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_set>

#include "text/sentencepiece_file.h"

namespace inkling {

// Between two characters that stand side by side in no piece no token can cross, and then the tokens of both sides are
// those of the whole: bpe merges neighbours only to pieces, so what happens on one side changes nothing on the other;
// the best way through unigram's lattice goes through that place, and its halves are best ways of their own (but for
// the rounding of the library's 32-bit sums).
class PieceCuts {
 public:
  explicit PieceCuts(std::span<const Piece> pieces);

  // The last such place in the first `limit` bytes of a longer text; 0 if there is none.
  std::size_t last_cut(std::string_view text, std::size_t limit) const;

  // As Tokenizer::part_length(): the text up to the last such place in its first 256 KiB. Where there is none, the text
  // is cut as a long line is (text/line_cuts.h), and that can be seen in its tokens.
  std::size_t part_length(std::string_view text, bool more_may_follow) const;

  // The length of a front of a whole part that ends at such a place, which the library encodes twice as fast as the
  // part at once: some 2 KiB, or as much more as it takes.
  std::size_t stretch_length(std::string_view part) const;

 private:
  std::unordered_set<std::uint64_t> joined_;  // neighbours within a piece, each character as its UTF-8 bytes
};

}  // namespace inkling
