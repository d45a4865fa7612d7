// Where a text is cut into the pieces that a tokenizer encodes one by one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_set>

#include "text/sentencepiece_file.h"

namespace inkling {

// Encoding by byte, char and sentencepiece is defined line by line, so that results do not depend on how a file was
// read: a text is cut after every
// '\n'; a line of more than 64 KiB is cut before the last ASCII white space within its first 64 KiB, or, where there is
// none, between characters. Each piece is encoded alone, and the results follow each other.
inline constexpr std::size_t max_line_bytes = 65536;

// The length in bytes of the first piece of `text`; 0 if it is empty.
// Where `text` is the front of a longer text that is still being read, say more_may_follow: then the answer is 0 until
// it is certain, which it is at a '\n' or once `text` holds more than max_line_bytes.
std::size_t next_line_length(std::string_view text, bool more_may_follow = false);

// The length of the first part of `text` that is encoded at once: all whole lines of its first 256 KiB, or, if the
// first is longer, its first piece. more_may_follow as above.
inline constexpr std::size_t part_bytes = 262144;
std::size_t next_lines_length(std::string_view text, bool more_may_follow = false);

// The length of the longest front of `text`, which is longer than `limit` bytes, that has at most `limit` bytes and
// ends before white space or, where there is none, between characters. It is at least 1, and well-formed UTF-8 stays
// well-formed.
std::size_t cut_within(std::string_view text, std::size_t limit);

// Where a text may be cut for a sentencepiece model that was made elsewhere, whose pieces need not stay inside lines.

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
