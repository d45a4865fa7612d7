#include "text/text_cuts.h"

#include "tests/text/text_testing.h"

namespace inkling {
namespace {

std::vector<std::string> pieces_of(std::string_view text) {
  std::vector<std::string> pieces;
  while (!text.empty()) {
    pieces.emplace_back(text.substr(0, next_line_length(text)));
    text.remove_prefix(pieces.back().size());
  }
  return pieces;
}

// Cuts like a reader that has never read more than `block` bytes beyond what it has handed on.
std::vector<std::string> pieces_read_in_blocks(std::string_view text, std::size_t block) {
  std::vector<std::string> pieces;
  std::size_t begin = 0, end = 0;
  while (begin < text.size()) {
    const std::string_view known = text.substr(begin, end - begin);
    const std::size_t length = next_line_length(known, end < text.size());
    if (length == 0) {
      end = std::min(text.size(), end + block);
      continue;
    }
    pieces.emplace_back(known.substr(0, length));
    begin += length;
  }
  return pieces;
}

TEST(LineCuts, EachLineKeepsItsNewlineAndTheLastMayHaveNone) {
  EXPECT_EQ(pieces_of("a\n\nbc\r\nd"), (std::vector<std::string>{"a\n", "\n", "bc\r\n", "d"}));
  EXPECT_EQ(next_line_length(""), 0u);
  EXPECT_EQ(next_line_length("", true), 0u);
}

TEST(LineCuts, ALineOf64KiBIsOnePieceAndAByteMoreIsCutBeforeWhiteSpace) {
  std::string line(max_line_bytes, 'x');
  line[1000] = ' ';
  EXPECT_EQ(pieces_of(line).size(), 1u);
  line += 'x';
  EXPECT_EQ(next_line_length(line), 1000u);
  line.back() = '\n';
  EXPECT_EQ(next_line_length(line), 1000u) << "the newline lies past 64 KiB";
  line[max_line_bytes - 1] = '\n';
  EXPECT_EQ(next_line_length(line), max_line_bytes);
}

TEST(LineCuts, ALongLineWithoutWhiteSpaceIsCutBetweenCharacters) {
  std::string euros;
  while (euros.size() < 3 * max_line_bytes) euros += "€";
  for (const std::string& piece : pieces_of(euros)) {
    EXPECT_LE(piece.size(), max_line_bytes);
    EXPECT_FALSE(find_invalid_utf8(piece));
  }
  const std::string continuation_bytes(2 * max_line_bytes, '\x80');
  EXPECT_EQ(pieces_of(continuation_bytes).size(), 2u);
}

TEST(LineCuts, NothingIsCutBeforeItIsCertain) {
  EXPECT_EQ(next_line_length("abc", true), 0u);
  EXPECT_EQ(next_line_length("abc\n", true), 4u);
  EXPECT_EQ(next_line_length(std::string(max_line_bytes, 'x'), true), 0u);
  EXPECT_EQ(next_line_length(std::string(max_line_bytes + 1, 'x'), true), max_line_bytes);
}

TEST(LineCuts, PiecesDoNotDependOnHowTheTextWasRead) {
  EXPECT_TRUE(rc::check([] {
    std::string text;
    for (const int length : *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 90000))) {
      text += std::string(static_cast<std::size_t>(length), *rc::gen::element('a', 'b', ' ', '\x82'));
      text += *rc::gen::element<std::string>("\n", " ", "€", "\t\xf0", "");
    }
    const auto pieces = pieces_of(text);
    std::string joined;
    for (const auto& piece : pieces) {
      RC_ASSERT(!piece.empty() && piece.size() <= max_line_bytes);
      joined += piece;
    }
    RC_ASSERT(joined == text);
    RC_ASSERT(pieces_read_in_blocks(text, 4096) == pieces);
    RC_ASSERT(pieces_read_in_blocks(text, *rc::gen::inRange<std::size_t>(500, 200000)) == pieces);
  }));
}

TEST(LineCuts, APartIsAllWholeLinesOf256KiB) {
  const std::string lines(100, 'x');
  std::string text;
  while (text.size() < 3 * part_bytes) text += lines + "\n";
  EXPECT_EQ(next_lines_length(text), part_bytes / 101 * 101);
  EXPECT_EQ(next_lines_length(text.substr(0, part_bytes), true), 0u) << "the line goes on";
  EXPECT_EQ(next_lines_length(text.substr(0, part_bytes)), part_bytes);
  EXPECT_EQ(next_lines_length(std::string(part_bytes + 1, 'x')), max_line_bytes) << "a piece of a long line";
  EXPECT_EQ(next_lines_length(""), 0u);
}

}  // namespace
}  // namespace inkling
