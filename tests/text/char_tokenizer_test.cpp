#include "tests/text/text_testing.h"

namespace inkling {
namespace {

TEST(CharTokenizer, VocabularyIsTheCodePointsOfTheTextInOrder) {
  const auto tokenizer = char_tokenizer_of("ba\n😀é ba", true);
  EXPECT_EQ(tokenizer->vocab_size(), 7u);  // newline, space, a, b, é, 😀 and the separator
  EXPECT_EQ(encode(*tokenizer, "\n abé😀"), (std::vector<Token>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(tokenizer->separator(), Token{6});
  EXPECT_EQ(tokenizer->decode(5), "😀");
  EXPECT_EQ(tokenizer->decode(6), "");
  EXPECT_EQ(char_tokenizer_of("ab", false)->separator(), std::nullopt);
}

TEST(CharTokenizer, TextInTheVocabularyReturns) {
  EXPECT_TRUE(rc::check([] {
    const auto text = *rc::gen::suchThat(any_text(), [](const std::string& t) { return !t.empty(); });
    const auto tokenizer = char_tokenizer_of(text, *rc::gen::arbitrary<bool>());
    const auto tokens = encode(*tokenizer, text);
    RC_ASSERT(decode(*tokenizer, tokens) == text);
    for (const Token token : tokens) RC_ASSERT(tokenizer->decode(token) != "");
  }));
}

TEST(CharTokenizer, CodePointsAtTheEdgesReturn) {
  const std::string edges = utf8({0, 0x7f, 0x80, 0xff, 0x100, 0x7ff, 0x800, 0xd7ff, 0xe000, 0xffff, 0x10000, 0x10ffff});
  const auto tokenizer = char_tokenizer_of(edges, false);
  EXPECT_EQ(tokenizer->vocab_size(), 12u);
  EXPECT_EQ(decode(*tokenizer, encode(*tokenizer, edges)), edges);
}

TEST(CharTokenizer, EveryUnknownCharacterIsNamedOnce) {
  const auto tokenizer = char_tokenizer_of("abc\n", false);
  const auto message = input_error([&] { encode(*tokenizer, "aéa\n€ é\x07"); });
  EXPECT_TRUE(contains(message, "\"é\" (U+00E9), \"€\" (U+20AC), \" \" (U+0020)")) << message;
  EXPECT_TRUE(contains(message, "(U+0007)")) << message;
  EXPECT_EQ(message.find("U+00E9"), message.rfind("U+00E9")) << message;
}

TEST(CharTokenizer, OfManyUnknownCharactersTenAreNamedAndTheOthersCounted) {
  const auto tokenizer = char_tokenizer_of("a", false);
  const auto message = input_error([&] { encode(*tokenizer, "bcdefghijklm"); });
  EXPECT_TRUE(contains(message, "U+006B")) << message;
  EXPECT_FALSE(contains(message, "U+006C")) << message;
  EXPECT_TRUE(contains(message, "and 2 more")) << message;
}

TEST(CharTokenizer, ARefusedLineLeavesTheTokensAsTheyWere) {
  const auto tokenizer = char_tokenizer_of("ab", false);
  std::vector<Token> tokens = {1};
  input_error([&] { tokenizer->encode_part("ab?", true, tokens); });
  input_error([&] { tokenizer->encode_part("ab\xff", true, tokens); });
  EXPECT_EQ(tokens, std::vector<Token>{1});
}

TEST(CharTokenizer, InvalidUtf8IsRefusedWithItsPlace) {
  CharVocabularyBuilder builder;
  const auto message = input_error([&] { builder.add("abc\xff"); });
  EXPECT_TRUE(contains(message, "byte 3 (0xFF)")) << message;
  const auto tokenizer = char_tokenizer_of("abc\n", false);
  EXPECT_TRUE(contains(input_error([&] { encode(*tokenizer, "abc\nab\xc3"); }), "byte 6 (0xC3)"));
}

TEST(CharTokenizer, NoTextIsRefused) {
  EXPECT_TRUE(contains(input_error([] { CharVocabularyBuilder().finish(false); }), "no text"));
}

TEST(CharTokenizer, AForeignTokenIsRefused) {
  const auto tokenizer = char_tokenizer_of("ab", true);
  EXPECT_TRUE(contains(input_error([&] { tokenizer->decode(3); }), "token 3"));
}

}  // namespace
}  // namespace inkling
