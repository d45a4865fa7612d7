#include "tests/text/text_testing.h"

namespace inkling {
namespace {

std::unique_ptr<Tokenizer> gpt2(bool with_separator) {
  const auto no_text = [](const char*, const PartLength&, const TakePart&) {};
  return build_tokenizer({.kind = TokenizerKind::bpe, .from = "gpt2"}, no_text, with_separator);
}

using Tokens = std::vector<Token>;

TEST(BpeTokenizer, Gpt2IsGpt2) {
  const auto tokenizer = gpt2(true);
  EXPECT_EQ(tokenizer->vocab_size(), 50257u);
  EXPECT_EQ(tokenizer->separator(), 50256u);
  EXPECT_EQ(gpt2(false)->separator(), std::nullopt);
  EXPECT_EQ(encode(*tokenizer, "Hello world"), (Tokens{15496, 995}));
  EXPECT_EQ(encode(*tokenizer, "First Citizen:\n\nBefore we proceed"),
            (Tokens{5962, 22307, 25, 198, 198, 8421, 356, 5120}));
  EXPECT_EQ(
      encode(*tokenizer, "naïve café 東京 😀  <|endoftext|>"),
      (Tokens{2616, 38776, 40304, 10545, 251, 109, 12859, 105, 30325, 222, 220, 1279, 91, 437, 1659, 5239, 91, 29}))
      << "the text of a special token is ordinary text";
  EXPECT_EQ(tokenizer->decode(50256), "");
  EXPECT_EQ(tokenizer->decode(995), " world");
}

TEST(BpeTokenizer, WhatIsNotUtf8IsCutSomewhere) {
  const auto tokenizer = gpt2(false);
  for (const bool more_may_follow : {false, true}) {
    EXPECT_GT(tokenizer->part_length(std::string(3 << 20, '\x80'), more_may_follow), 0u);
  }
}

TEST(BpeTokenizer, EveryTextComesBack) {
  const auto tokenizer = learn_bpe(340, sample_text(50), true);
  EXPECT_EQ(tokenizer->separator(), 339u);
  EXPECT_TRUE(rc::check([&] {
    const std::string text = *any_text();
    RC_ASSERT(decode(*tokenizer, encode(*tokenizer, text)) == text);
  }));
}

TEST(BpeTokenizer, TheTokensOfPartsAreThoseOfTheWhole) {
  const auto tokenizer = learn_bpe(340, sample_text(50), false);
  for (const std::string& unit :
       {sample_text(7), std::string("\u4e2d\u6587\u3002\n"), std::string("!!!! \n\n'''ll 12")}) {
    std::string text;
    while (text.size() < 2'000'000) text += unit;
    Tokens whole, parts;
    tokenizer->encode_part(text, true, whole);
    std::size_t count = 0;
    for (std::string_view rest = text; !rest.empty(); ++count) {
      const std::size_t length = tokenizer->part_length(rest);
      ASSERT_EQ(tokenizer->part_length(rest.substr(0, length + 4), rest.size() > length + 4) == length,
                length + 4 > 262144 || rest.size() <= length + 4)
          << "it is not certain before 256 KiB";
      tokenizer->encode_part(rest.substr(0, length), false, parts);
      rest.remove_prefix(length);
    }
    EXPECT_GE(count, 7u);
    EXPECT_TRUE(parts == whole);
  }
}

TEST(BpeTokenizer, WhatHasNoBoundaryIsCutAfter2MiB) {
  const auto tokenizer = learn_bpe(300, sample_text(50), false);
  const std::size_t longest = std::size_t{2} << 20;
  EXPECT_EQ(tokenizer->part_length(std::string(longest, 'a'), true), 0u);
  EXPECT_EQ(tokenizer->part_length(std::string(longest, 'a')), longest);
  EXPECT_EQ(tokenizer->part_length(std::string(longest + 1, 'a'), true), longest);
  EXPECT_EQ(tokenizer->part_length(std::string(longest - 5, 'a') + " " + std::string(10, 'a')), longest - 5);
  std::string euros;
  while (euros.size() <= longest) euros += "\u20ac";
  EXPECT_EQ(tokenizer->part_length(euros), longest - longest % 3);
}

TEST(BpeTokenizer, TextThatIsNotUtf8IsRefusedWithItsByte) {
  const auto tokenizer = learn_bpe(300, sample_text(50), false);
  Tokens tokens{1, 2};
  EXPECT_TRUE(contains(input_error([&] { tokenizer->encode_part("ab\xff", true, tokens); }), "byte 2 (0xFF)"));
  EXPECT_EQ(tokens, (Tokens{1, 2}));
}

TEST(BpeTokenizer, AVocabularyLargerThanTheTextIsRefusedWithTheLargestOne) {
  const std::string message = input_error([] { learn_bpe(5000, "abab abab", true); });
  EXPECT_TRUE(contains(message, "data.tokenizer.vocab_size: 5000 is more than this text has pairs for")) << message;
  const std::size_t at = message.find("write ");
  const std::uint64_t largest = std::stoull(message.substr(at + 6));
  EXPECT_EQ(learn_bpe(largest, "abab abab", true)->vocab_size(), largest);
  input_error([&] { learn_bpe(largest + 1, "abab abab", true); });
  EXPECT_TRUE(contains(input_error([] { learn_bpe(300, "", false); }), "there is no text"));
}

}  // namespace
}  // namespace inkling
