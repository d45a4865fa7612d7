#include "text/pattern.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>
#include <vector>

#include "base/strings.h"

namespace inkling {
namespace {

std::vector<std::string> words(Pattern pattern, std::string_view text) {
  std::vector<std::string> words;
  PatternScanner scanner(pattern, text);
  const char* begin = text.data();
  for (auto ends = scanner.next(); !ends.empty(); ends = scanner.next()) {
    for (const char* const end : ends) {
      words.emplace_back(begin, end);
      begin = end;
    }
  }
  EXPECT_EQ(begin, text.data() + text.size());
  return words;
}

using Words = std::vector<std::string>;

TEST(Pattern, Gpt2KeepsASpaceWithTheWordBehindIt) {
  EXPECT_EQ(words(Pattern::gpt2, "Hello world, it's  42nd!"),
            (Words{"Hello", " world", ",", " it", "'s", " ", " 42", "nd", "!"}));
  EXPECT_EQ(words(Pattern::gpt2, "a\n\nb \n c\n"), (Words{"a", "\n", "\n", "b", " \n", " c", "\n"}));
  EXPECT_EQ(words(Pattern::gpt2, "we'll WE'LL '"), (Words{"we", "'ll", " WE", "'", "LL", " '"}));
  EXPECT_EQ(words(Pattern::gpt2, "   "), (Words{"   "}));
  EXPECT_EQ(words(Pattern::gpt2, " 1234567"), (Words{" 1234567"}));
  EXPECT_EQ(words(Pattern::gpt2, "caf\u00e9\u00a0\u0663\u4e2d\u6587\U0001f600"),
            (Words{"caf\u00e9", "\u00a0", "\u0663", "\u4e2d\u6587", "\U0001f600"}));
}

TEST(Pattern, TheLaterOnesCutNumbersAndKeepLineEndsWithWhatIsBeforeThem) {
  for (const Pattern pattern : {Pattern::cl100k, Pattern::llama3}) {
    EXPECT_EQ(words(pattern, "1234567 12"), (Words{"123", "456", "7", " ", "12"}));
    EXPECT_EQ(words(pattern, "WE'LL it'\u017f(a)\tb"), (Words{"WE", "'LL", " it", "'\u017f", "(a", ")", "\tb"}));
    EXPECT_EQ(words(pattern, "end.\r\n\n  next"), (Words{"end", ".\r\n\n", " ", " next"}));
    EXPECT_EQ(words(pattern, "a \n \n b"), (Words{"a", " \n \n", " b"}));
    EXPECT_EQ(words(pattern, "  \na"), (Words{"  \n", "a"}));
  }
}

TEST(Pattern, OnlyWhiteSpaceAtTheEndTellsTheLaterTwoApart) {
  EXPECT_EQ(words(Pattern::cl100k, "a\n  "), (Words{"a", "\n  "}));
  EXPECT_EQ(words(Pattern::llama3, "a\n  "), (Words{"a", "\n", "  "}));
}

TEST(Pattern, UnicodeSaysWhatALetterIs) {
  const UnicodeClasses& classes = UnicodeClasses::table();
  EXPECT_STREQ(unicode_version, "15.0.0");
  for (const char32_t letter : {U'a', U'Z', U'\u00aa', U'\u05d0', U'\u4e00', U'\ua4d0', U'\U0002ebe0'}) {
    EXPECT_EQ(classes.of(letter), CharacterClass::letter) << std::hex << std::uint32_t{letter};
  }
  for (const char32_t number : {U'0', U'\u00bd', U'\u2167', U'\u0663', U'\U0001d7d8'}) {
    EXPECT_EQ(classes.of(number), CharacterClass::number) << std::hex << std::uint32_t{number};
  }
  for (const char32_t space : {U' ', U'\t', U'\v', U'\u0085', U'\u00a0', U'\u2003', U'\u2028', U'\u3000'}) {
    EXPECT_EQ(classes.of(space), CharacterClass::white_space) << std::hex << std::uint32_t{space};
  }
  for (const char32_t other : {U'_', U'\u001c', U'\u0301', U'\u200b', U'\ufeff', U'\U0001f600', U'\U0010ffff'}) {
    EXPECT_EQ(classes.of(other), CharacterClass::other) << std::hex << std::uint32_t{other};
  }
}

rc::Gen<std::string> any_mixture() {
  return rc::gen::map(rc::gen::container<std::vector<std::string>>(rc::gen::element<std::string>(
                          "a", "B", "s", "ll", "'", " ", " ", "  ", "\n", "\r\n", "\t", "1", "23", ".", "!?", "\u00e9",
                          "\u4e2d", "\u3002", "\u00a0", "\u0301", "\U0001f600", "\u0663", "\u017f")),
                      [](const std::vector<std::string>& parts) {
                        std::string text;
                        for (const std::string& part : parts) text += part;
                        return text;
                      });
}

TEST(Pattern, ACutAtABoundaryChangesNoWord) {
  EXPECT_TRUE(rc::check([] {
    const std::string text = *any_mixture();
    const std::size_t limit = *rc::gen::inRange<std::size_t>(0, text.size() + 2);
    const std::size_t place = last_boundary(text, limit);
    RC_ASSERT(place <= limit);
    RC_ASSERT(place == 0 || place < text.size());
    for (const Pattern pattern : {Pattern::gpt2, Pattern::cl100k, Pattern::llama3}) {
      Words cut = words(pattern, text.substr(0, place));
      for (const std::string& word : words(pattern, text.substr(place))) cut.push_back(word);
      RC_ASSERT(cut == words(pattern, text));
    }
  }));
}

TEST(Pattern, WhatIsNotUtf8HasNoBoundaryAndIsReadInItsBounds) {
  EXPECT_EQ(last_boundary("a b\xff\xbf\xbf\xbf c", 7), 1u) << "not before the space behind 0xFF";
  EXPECT_EQ(last_boundary("\xf7\xbf\xbf\xbf\xf7", 4), 0u);
  EXPECT_EQ(last_boundary("a\xf0", 1), 0u);
  EXPECT_TRUE(rc::check([] {
    const auto text = *rc::gen::container<std::string>(
        rc::gen::element('a', ' ', '1', '\x80', '\xbf', '\xc3', '\xe2', '\xf0', '\xf4', '\xf7', '\xff'));
    const std::string copy(text);  // of its own length, so that a sanitizer sees what is read behind it
    for (std::size_t limit = 0; limit <= copy.size(); ++limit) RC_ASSERT(last_boundary(copy, limit) <= limit);
  }));
}

TEST(Pattern, EveryBoundaryIsFound) {
  EXPECT_EQ(last_boundary("one two", 7), 3u);
  EXPECT_EQ(last_boundary("one two", 2), 0u);
  EXPECT_EQ(last_boundary("12ab", 3), 2u);
  EXPECT_EQ(last_boundary("!!! !!!", 6), 3u);
  EXPECT_EQ(last_boundary("!!!\n!!!", 6), 0u) << "where cl100k goes on";
  EXPECT_EQ(last_boundary("\u4e2d\u3002\u6587", 8), 3u);
  EXPECT_EQ(last_boundary("ab \xe4\xb8", 5), 2u) << "the last character is not complete";
  EXPECT_EQ(last_boundary("", 5), 0u);
}

}  // namespace
}  // namespace inkling
