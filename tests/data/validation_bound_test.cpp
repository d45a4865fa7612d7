#include "data/validation_bound.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/strings.h"
#include "config/config.h"
#include "data/dataset.h"
#include "tests/temporary_folder.h"

namespace inkling {
namespace {

constexpr std::string_view two_stories =
    "story:\n"
    "  * {animal} is here.\n"
    "\n"
    "animal:\n"
    "  * A fox\n"
    "  3 * Ein Kälbchen\n";

DataConfig settings(const TemporaryFolder& folder, TokenizerKind kind) {
  DataConfig config;
  config.source = {folder.write("two.grammar", two_stories)};
  config.tokenizer.kind = kind;
  config.stories = 50;
  config.val_fraction = 0.2;
  config.dir = (folder / str("prepared-", word_of(kind))).string();
  return config;
}

TEST(GrammarCorpus, EveryStoryIsADocumentAndTheTailIsForValidation) {
  const TemporaryFolder folder;
  const Dataset dataset = prepare_dataset(settings(folder, TokenizerKind::character), {});
  EXPECT_EQ(dataset.train.documents, 40u);
  EXPECT_EQ(dataset.validation.documents, 10u);
  ASSERT_TRUE(dataset.tokenizer->separator().has_value());
  ASSERT_TRUE(dataset.bound_file.has_value());
  EXPECT_TRUE(fs::exists(*dataset.bound_file));
}

TEST(GrammarCorpus, TheBoundIsTheProbabilityOfTheVeryStoriesOfTheSplit) {
  for (const TokenizerKind kind : {TokenizerKind::character, TokenizerKind::byte}) {
    const TemporaryFolder folder;
    const Dataset dataset = prepare_dataset(settings(folder, kind), {});
    const ValidationBound bound = read_validation_bound(*dataset.bound_file);
    EXPECT_EQ(bound.tokens(), dataset.validation.tokens);
    ASSERT_EQ(bound.stories.size(), dataset.validation.documents);

    const TokenSequence sequence(dataset.validation.shards, dataset.vocab_size);
    std::uint64_t begin = 0;
    for (const StoryBound& story : bound.stories) {
      std::vector<Token> tokens(story.tokens);
      sequence.read(begin, tokens);
      EXPECT_EQ(tokens.back(), dataset.tokenizer->separator());
      const bool fox = decode(*dataset.tokenizer, tokens) == "A fox is here.";
      EXPECT_NEAR(story.nats, fox ? std::log(4.0) : std::log(4.0 / 3.0), 1e-12);
      EXPECT_EQ(story.characters, fox ? 15u : 22u);
      begin += story.tokens;
    }
  }
}

TEST(GrammarCorpus, AnotherSeedIsAnotherCorpus) {
  const TemporaryFolder folder;
  DataConfig config = settings(folder, TokenizerKind::character);
  const std::string before = prepare_dataset(config, {}).hash;
  config.grammar_seed = 2;
  EXPECT_NE(prepare_dataset(config, {}).hash, before);
}

TEST(GrammarCorpus, AMistakeInTheGrammarIsRefusedWithItsPlace) {
  const TemporaryFolder folder;
  DataConfig config = settings(folder, TokenizerKind::character);
  config.source = {folder.write("two.grammar", "story:\n  * {nobody} is here.\n")};
  EXPECT_TRUE(contains(input_error([&] { prepare_dataset(config, {}); }), "two.grammar:2:"));
}

TEST(ValidationBound, ReturnsFromItsFile) {
  const TemporaryFolder folder;
  const ValidationBound bound{{{12, 12, 3.5}, {20, 18, 0.1}}};
  write_validation_bound(folder / "bound.json", bound);
  const ValidationBound read = read_validation_bound(folder / "bound.json");
  ASSERT_EQ(read.stories.size(), 2u);
  EXPECT_EQ(read.stories[1].nats, 0.1);
  EXPECT_EQ(read.characters(), 30u);
  EXPECT_EQ(read.tokens(), 32u);
  EXPECT_EQ(read.nats(), 3.5 + 0.1);
}

TEST(ValidationBound, ADamagedFileIsRefusedByName) {
  const TemporaryFolder folder;
  const std::string mark = R"("format":"inkling-validation-bound")";
  const std::string whole = "{" + mark + R"(,"nats":1.5,"characters":2,"tokens":3,"stories":[[3,2,1.5]]})";
  EXPECT_EQ(read_validation_bound(folder.write("bound.json", whole)).tokens(), 3u);
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("{}"), "{" + mark + R"(,"stories":[[1]]})",
        "{" + mark + R"(,"tokens":18446744073709551615,"stories":[[-1,1,1.5]]})",
        "{" + mark + R"(,"tokens":3,"characters":2,"stories":[[3,2,null]]})",
        "{" + mark + R"(,"tokens":4,"characters":2,"stories":[[3,2,1.5]]})", "{" + mark + ",\"stories\":" + deep + "}",
        whole + std::string("\0x", 2)}) {
    const fs::path path = folder.write("bound.json", text);
    EXPECT_TRUE(contains(input_error([&] { read_validation_bound(path); }), "bound.json is damaged")) << text;
  }
}

}  // namespace
}  // namespace inkling
