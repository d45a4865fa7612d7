#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"

namespace inkling {
namespace {

// Decodes by the definition of RFC 3629, section 3, with no table of byte ranges: the judge of the code under test.
bool plainly_well_formed(const std::string& text) {
  std::size_t i = 0;
  while (i < text.size()) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const int more = lead < 0x80 ? 0 : lead >> 5 == 6 ? 1 : lead >> 4 == 14 ? 2 : lead >> 3 == 30 ? 3 : -1;
    if (more < 0 || i + static_cast<std::size_t>(more) >= text.size()) return false;
    std::uint32_t code_point = more == 0 ? lead : lead & (0x3fU >> more);
    for (int k = 1; k <= more; ++k) {
      const auto byte = static_cast<unsigned char>(text[i + static_cast<std::size_t>(k)]);
      if (byte >> 6 != 2) return false;
      code_point = code_point << 6 | (byte & 63U);
    }
    constexpr std::uint32_t smallest[] = {0, 0x80, 0x800, 0x10000};
    if (code_point < smallest[more] || code_point > 0x10ffff) return false;
    if (code_point >= 0xd800 && code_point <= 0xdfff) return false;
    i += static_cast<std::size_t>(more) + 1;
  }
  return true;
}

TEST(Utf8, EveryCodePointReturnsAndNoSurrogateDoes) {
  for (char32_t code_point = 0; code_point <= 0x10ffff; ++code_point) {
    std::string text;
    append_utf8(text, code_point);
    const bool surrogate = code_point >= 0xd800 && code_point <= 0xdfff;
    ASSERT_EQ(find_invalid_utf8(text).has_value(), surrogate) << static_cast<unsigned>(code_point);
    if (surrogate) continue;
    std::size_t offset = 0;
    ASSERT_EQ(decode_utf8(text, offset), code_point);
    ASSERT_EQ(offset, text.size());
  }
}

TEST(Utf8, EverySequenceOfTwoBytesAndEveryLeadWithThreeIsJudgedAsRfc3629Says) {
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; ++second) {
      for (const char* rest : {"", "\x7f", "\x80", "\xbf", "\xc0", "\x80\x80", "\xbf\xbf", "\x80\x7f"}) {
        const std::string text = std::string{static_cast<char>(first), static_cast<char>(second)} + rest;
        ASSERT_EQ(!find_invalid_utf8(text), plainly_well_formed(text)) << first << " " << second;
      }
    }
  }
}

TEST(Utf8, EdgesOfTheRangesAreKept) {
  for (const char* good : {"\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80", "\xef\xbf\xbf",
                           "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf", "\xef\xbb\xbf"}) {
    EXPECT_FALSE(find_invalid_utf8(good)) << quote(good);
  }
  for (const char* bad : {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xed\xbf\xbf",
                          "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xfe", "\xff", "\xc3",
                          "\xe2\x82", "\xf0\x9f\x98", "\xe2\x28\xa1", "\xf8\x88\x80\x80\x80"}) {
    EXPECT_EQ(find_invalid_utf8(bad), 0U) << quote(bad);
  }
}

TEST(Utf8, OffsetOfTheFirstBadByteIsFoundAtEveryPosition) {
  for (std::size_t before = 0; before < 40; ++before) {
    const std::string text = std::string(before, 'a') + "\xc3\xa9" + std::string(before, 'b');
    EXPECT_FALSE(find_invalid_utf8(text));
    EXPECT_EQ(find_invalid_utf8(text + "\xff" + text), text.size());
    EXPECT_EQ(find_invalid_utf8(text + "\xe2\x82"), text.size());
  }
}

TEST(Utf8, RandomBytesAreJudgedAsRfc3629Says) {
  EXPECT_TRUE(rc::check([] {
    const auto piece = rc::gen::element<std::string>("a", "\n", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\x80",
                                                     "\xc3", "\xed", "\xf4\x90", "plain ascii text");
    const auto pieces = *rc::gen::container<std::vector<std::string>>(piece);
    const std::string text = join(pieces, "");
    const auto offset = find_invalid_utf8(text);
    RC_ASSERT(!offset == plainly_well_formed(text));
    if (offset) RC_ASSERT(plainly_well_formed(text.substr(0, *offset)));
  }));
}

TEST(Utf8, IncompleteSuffixIsWhatTheNextBytesCanComplete) {
  const std::vector<std::pair<std::string, std::size_t>> cases = {
      {"", 0},
      {"abc", 0},
      {"\xc3", 1},
      {"a\xe2\x82", 2},
      {"\xf0\x9f\x98", 3},
      {"\xf0", 1},
      {"\xf0\x9f", 2},
      {"\xe2\x82\xac", 0},
      {"\xf0\x9f\x98\x80", 0},
      {"\x80\x80\x80", 0},
      {"\xe0\x80", 0},
      {"\xed\xa0", 0},
      {"\xf4\x90", 0},
      {"\xff", 0},
      {"\xc3\xa9\xc3", 1},
      {"\xc0", 0},
      {"\xf0\x9f\x98\x80\x80", 0},
  };
  for (const auto& [text, expected] : cases) EXPECT_EQ(incomplete_utf8_suffix(text), expected) << quote(text);
}

TEST(Utf8, EveryCutOfAWellFormedTextLeavesAnIncompleteSuffixAndNothingElse) {
  const std::string text = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    const std::string head = text.substr(0, cut);
    EXPECT_FALSE(find_invalid_utf8(head.substr(0, head.size() - incomplete_utf8_suffix(head)))) << cut;
  }
}

TEST(Utf8, CharactersAreCountedAndFoundByTheirFirstBytes) {
  const std::string text = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z";
  EXPECT_EQ(count_characters(text), 5U);
  EXPECT_EQ(count_characters(""), 0U);
  const std::vector<std::size_t> starts = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11};  // of each byte, and of the end
  for (std::size_t offset = 0; offset < starts.size(); ++offset) {
    EXPECT_EQ(character_start(text, offset), starts[offset]) << offset;
  }
  EXPECT_EQ(character_start("\x80\x80\x80", 2), 0U);
}

TEST(Utf8, WithoutControlCharactersSteersNoTerminal) {
  EXPECT_EQ(without_control_characters("a\tb\n\x1b[2J\r\x7f \xc2\x9b é 日"), "a\tb\n\\x1b[2J\\x0d\\x7f \\x9b é 日");
  EXPECT_EQ(without_control_characters(std::string_view("\0", 1)), "\\x00");
}

}  // namespace
}  // namespace inkling
