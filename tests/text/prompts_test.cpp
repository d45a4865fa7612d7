// What becomes of a prompt.
#include "text/prompts.h"

#include <gtest/gtest.h>

#include "tests/text/text_testing.h"

namespace inkling {
namespace {

constexpr std::string_view letters = "\nab €";

TEST(EncodePrompt, BeginsWithTheSeparatorWhereThereIsOne) {
  const auto tokenizer = char_tokenizer_of(letters, true);
  const Token separator = *tokenizer->separator();
  EXPECT_EQ(encode_prompt(*tokenizer, ""), std::vector<Token>{separator});
  EXPECT_EQ(encode_prompt(*tokenizer, "ab").size(), 3u);
  EXPECT_EQ(encode_prompt(*tokenizer, "ab").front(), separator);
}

TEST(EncodePrompt, AnEmptyPromptIsANewLineWhereThereIsNoSeparator) {
  const auto tokenizer = char_tokenizer_of(letters, false);
  EXPECT_EQ(encode_prompt(*tokenizer, ""), encode(*tokenizer, "\n"));
  EXPECT_EQ(encode_prompt(*tokenizer, "ab"), encode(*tokenizer, "ab"));
}

TEST(EncodePrompt, WithNeitherAnEmptyPromptIsRefused) {
  CharVocabularyBuilder builder;
  builder.add("abc");
  const auto tokenizer = builder.finish(false);
  const auto error = error_of([&] { encode_prompt(*tokenizer, ""); });
  ASSERT_TRUE(error);
  EXPECT_NE(error->message().find("give --prompt"), std::string::npos) << error->message();
}

TEST(EncodePrompt, CharactersOutsideTheVocabularyAreNamed) {
  const auto tokenizer = char_tokenizer_of(letters, false);
  const auto error = error_of([&] { encode_prompt(*tokenizer, "a Q and a Ω"); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::input);
  EXPECT_NE(error->message().find("Q"), std::string::npos) << error->message();
  EXPECT_NE(error->message().find("Ω"), std::string::npos) << error->message();
}

TEST(CheckPrompts, AnErrorSaysWhereThePromptCameFrom) {
  const Prompts prompts = {.texts = {"a", "b"}, .origins = {"--prompt", "b.txt"}};
  std::string seen;
  check_prompts(prompts, [&](const std::string& text) { seen += text; });
  EXPECT_EQ(seen, "ab");
  const auto error = error_of([&] {
    check_prompts(prompts, [](const std::string& text) {
      if (text == "b") throw Error::environment("no b");
    });
  });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::environment);
  EXPECT_EQ(error->message(), "b.txt: no b");
}

}  // namespace
}  // namespace inkling
