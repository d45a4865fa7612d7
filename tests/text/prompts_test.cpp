// What becomes of a prompt.
#include "text/prompts.h"

#include <gtest/gtest.h>

#include "tests/text/sentencepiece_testing.h"
#include "text/special_tokens.h"

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
  EXPECT_NE(error->message().find("write a prompt"), std::string::npos) << error->message();
}

TEST(EncodePrompt, CharactersOutsideTheVocabularyAreNamed) {
  const auto tokenizer = char_tokenizer_of(letters, false);
  const auto error = error_of([&] { encode_prompt(*tokenizer, "a Q and a Ω"); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::input);
  EXPECT_NE(error->message().find("Q"), std::string::npos) << error->message();
  EXPECT_NE(error->message().find("Ω"), std::string::npos) << error->message();
}

TEST(EncodePrompt, NamesOfSpecialTokensAreTextOrTokensAsIsAsked) {
  const auto tokenizer = char_tokenizer_of("\nab <|endoftx>", true);
  const Token separator = *tokenizer->separator();
  const auto tokens = [&](std::string_view prompt) { return encode_prompt(*tokenizer, prompt, NamesInPrompt::tokens); };
  EXPECT_EQ(encode_prompt(*tokenizer, "a<|endoftext|>").size(), 15u) << "a separator and fourteen letters";
  const Token a = encode(*tokenizer, "a")[0], b = encode(*tokenizer, "b")[0];
  EXPECT_EQ(tokens("a<|endoftext|>b"), (std::vector<Token>{separator, a, separator, b}));
  EXPECT_EQ(tokens("<|endoftext|>a"), (std::vector<Token>{separator, a})) << "not twice";
  EXPECT_EQ(tokens("<|endoftext|>"), std::vector<Token>{separator});
  EXPECT_EQ(tokens(""), std::vector<Token>{separator});
  EXPECT_EQ(tokens("a<|endof"), encode_prompt(*tokenizer, "a<|endof"));
  EXPECT_EQ(find_special_token(*tokenizer, "</s>"), std::nullopt);
  const auto without = char_tokenizer_of("\nab <|endoftx>", false);
  EXPECT_EQ(encode_prompt(*without, "a<|endoftext|>", NamesInPrompt::tokens),
            encode_prompt(*without, "a<|endoftext|>"));
}

// Llama's <s> in front of a document, whose text has a space in front.
TEST(EncodePrompt, BehindATokenThatBeginsDocumentsTextHasThePrefix) {
  const TemporaryFolder folder;
  folder.write("tokenizer.model", model_like_llama());
  const auto tokenizer = load_tokenizer(folder.path());
  const std::vector<Token> whole = encode_prompt(*tokenizer, "the moon");
  EXPECT_EQ(encode_prompt(*tokenizer, "<s>the moon", NamesInPrompt::tokens), whole);
  std::vector<Token> ended = encode_prompt(*tokenizer, "a");
  ended.push_back(*tokenizer->separator());
  ended.insert(ended.end(), whole.begin(), whole.end());
  EXPECT_EQ(encode_prompt(*tokenizer, "a</s><s>the moon", NamesInPrompt::tokens), ended);
}

TEST(SpecialNames, TheFirstIsFoundAndOfSeveralTheLongest) {
  const SpecialNames names({"<|a|>", "<|a|>b", "[x]", "<"});
  EXPECT_EQ(names.longest(), 6u);
  const auto found = [&](std::string_view text, std::size_t from = 0) {
    const auto at = names.find(text, from);
    return at ? str(at->offset, " ", at->name) : std::string("none");
  };
  EXPECT_EQ(found("<<|a|>b"), "1 <|a|>b");
  EXPECT_EQ(found("<|a[x]<|a|>"), "3 [x]");
  EXPECT_EQ(found("<|a[x]<|a|>", 4), "6 <|a|>");
  EXPECT_EQ(found("<|a|"), "none");
  EXPECT_EQ(SpecialNames({}).find("<|a|>"), std::nullopt);
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
