#include "base/terminal_text.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <stdlib.h>

#include <string>

#include "base/strings.h"

namespace inkling {
namespace {

TEST(TerminalText, ColumnsAreThoseOfATerminalAndNeverFewer) {
  EXPECT_EQ(columns_of(""), 0u);
  EXPECT_EQ(columns_of("step 1"), 6u);
  EXPECT_EQ(columns_of("Bücher"), 6u);
  EXPECT_EQ(columns_of("日本語"), 6u);
  EXPECT_EQ(columns_of("ﾊﾝｶｸ"), 4u) << "halfwidth";
  EXPECT_EQ(columns_of("e\u0301"), 1u) << "an accent of its own";
  EXPECT_EQ(columns_of("🦊"), 2u);
  EXPECT_EQ(columns_of("⠿╌│"), 3u) << "what the curve is drawn with";
  EXPECT_EQ(columns_of("a\xff\xfe"), 3u) << "bytes that are not UTF-8";
}

TEST(TerminalText, WhatIsCutEndsBetweenCharactersAndFits) {
  EXPECT_EQ(bytes_that_fit("日本", 3), 3u);
  EXPECT_EQ(bytes_that_fit("abc", 3), 3u);
  EXPECT_EQ(bytes_that_fit("abc", 0), 0u);
  EXPECT_EQ(shortened("runs/fables", 11, Charset::ascii), "runs/fables");
  EXPECT_EQ(shortened("runs/fables", 6, Charset::ascii), "runs/~");
  EXPECT_EQ(shortened("日本語", 4, Charset::utf8), "日…");
  EXPECT_EQ(shortened("日本語", 0, Charset::utf8), "");
}

TEST(TerminalText, NothingThatATerminalActsOnIsPrintable) {
  EXPECT_EQ(printable("a\033[2Jb", Charset::utf8), "a\uFFFD[2Jb");
  EXPECT_EQ(printable("a\u009b2Jb\x7f", Charset::utf8), "a\uFFFD2Jb\uFFFD") << "the one-character CSI";
  EXPECT_EQ(printable("one\ntwo\tthree\r", Charset::ascii), "one two three ");
  EXPECT_EQ(printable(std::string_view("nul\0", 4), Charset::ascii), "nul?");
  EXPECT_EQ(printable("\u202egnirts\u2028", Charset::utf8), "\uFFFDgnirts\uFFFD");
  EXPECT_EQ(printable("naïve 日\xff", Charset::ascii), "na?ve ??");
  EXPECT_EQ(printable("naïve 日\xff", Charset::utf8), "naïve 日\uFFFD");
}

TEST(TerminalText, AnyBytesBecomePrintableAndAnyCutOfThemFits) {
  EXPECT_TRUE(rc::check([](const std::string& bytes) {
    const auto columns = *rc::gen::inRange<std::size_t>(0, 30);
    for (const Charset charset : {Charset::ascii, Charset::utf8}) {
      const std::string text = printable(bytes, charset);
      RC_ASSERT(!find_invalid_utf8(text));
      for (const char c : text) RC_ASSERT(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
      RC_ASSERT(columns_of(shortened(text, columns, charset)) <= columns);
    }
  }));
}

TEST(TerminalText, TheFirstVariableThatIsSetNamesTheCharset) {
  const auto charset = [](const char* all, const char* type, const char* lang) {
    ::setenv("LC_ALL", all, 1);
    ::setenv("LC_CTYPE", type, 1);
    ::setenv("LANG", lang, 1);
    return charset_of_environment();
  };
  EXPECT_EQ(charset("", "", "de_DE.UTF-8"), Charset::utf8);
  EXPECT_EQ(charset("", "en_US.utf8", "C"), Charset::utf8);
  EXPECT_EQ(charset("C", "en_US.utf8", "C.UTF-8"), Charset::ascii);
  EXPECT_EQ(charset("", "", ""), Charset::ascii);
}

}  // namespace
}  // namespace inkling
