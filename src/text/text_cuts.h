// Where a text is cut into the pieces that a tokenizer encodes one by one, and which lines it is learned from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

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
  explicit PieceCuts(std::span<const std::string> texts);  // what the pieces stand for

  // The last such place in the first `limit` bytes of a longer text; 0 if there is none.
  std::size_t last_cut(std::string_view text, std::size_t limit) const;

  // As Tokenizer::part_length(): the text up to the last such place in its first 256 KiB. Where there is none, the text
  // is cut as a long line is, and that can be seen in its tokens.
  std::size_t part_length(std::string_view text, bool more_may_follow) const;

  // The length of a front of a whole part that ends at such a place, which the library encodes twice as fast as the
  // part at once: some 2 KiB, or as much more as it takes.
  std::size_t stretch_length(std::string_view part) const;

 private:
  void add(std::string_view piece);

  std::unordered_set<std::uint64_t> joined_;  // neighbours within a piece, each character as its UTF-8 bytes
};

// A keyed sample of lines that fits in bounded memory, however many lines there are. Each line has a random number of
// 64 bits, a function of (seed, line number). The lines kept are those whose number begins with k zero bits, for the
// smallest k at which all of them fit; k grows while the text is read, so that no line is read twice and the sample
// does not depend on where the text will end. A line counts as 4 bytes more than it has, because every line costs the
// trainer something besides its bytes, and a text of very short lines has very many of them.
class LineSample {
 public:
  LineSample(std::uint64_t seed, std::uint64_t max_bytes);

  void add(std::string_view line);  // at most 4 GiB

  std::size_t size() const { return lines_.size(); }  // lines
  std::uint64_t bytes() const { return text_.size(); }

  // Calls visit(line) for each line kept, in the order of the text.
  template <typename Visit>
  void for_each(Visit visit) const {
    std::string_view rest = text_;
    for (const Line& line : lines_) {
      visit(rest.substr(0, line.length));
      rest.remove_prefix(line.length);
    }
  }

 private:
  struct Line {
    std::uint64_t number;
    std::uint32_t length;
  };
  static constexpr std::uint64_t bytes_beside_a_line = 4;

  void drop_half();
  std::uint64_t taken() const { return text_.size() + bytes_beside_a_line * lines_.size(); }

  std::uint64_t key_;
  std::uint64_t max_bytes_;
  std::uint64_t line_count_ = 0;
  std::uint64_t threshold_ = ~std::uint64_t{0};  // kept: numbers up to this
  std::string text_;                             // the lines one after the other
  std::vector<Line> lines_;
};

}  // namespace inkling
