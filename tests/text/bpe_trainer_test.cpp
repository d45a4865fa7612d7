#include "text/bpe_trainer.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <map>
#include <string>
#include <vector>

#include "text/bpe_vocabulary.h"
#include "text/pattern.h"

namespace inkling {
namespace {

// The definition, counting everything again for every merge.
std::vector<std::pair<Token, Token>> learned_naively(const std::vector<std::string>& words, std::size_t most_tokens) {
  std::vector<std::vector<Token>> all;
  for (const std::string& word : words) {
    std::vector<Token>& tokens = all.emplace_back();
    for (const char byte : word) tokens.push_back(static_cast<Token>(bytes_by_sign().find(byte)));
  }
  std::vector<std::pair<Token, Token>> merges;
  while (256 + merges.size() < most_tokens) {
    std::map<std::pair<Token, Token>, int> counts;
    for (const auto& tokens : all) {
      for (std::size_t i = 0; i + 1 < tokens.size(); ++i) ++counts[{tokens[i], tokens[i + 1]}];
    }
    std::pair<Token, Token> best;
    int most = 1;
    for (const auto& [pair, count] : counts) {  // in ascending order: the smaller pair wins
      if (count > most) best = pair, most = count;
    }
    if (most < 2) return merges;
    const auto token = static_cast<Token>(256 + merges.size());
    merges.push_back(best);
    for (auto& tokens : all) {
      for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
        if (std::pair(tokens[i], tokens[i + 1]) != best) continue;
        tokens[i] = token;
        tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      }
    }
  }
  return merges;
}

TEST(BpeTrainer, MergesThePairThatComesMostOftenAgainAndAgain) {
  EXPECT_TRUE(rc::check([] {
    std::vector<std::string> words;
    std::string text;
    const int count = *rc::gen::inRange(1, 40);
    for (int i = 0; i < count; ++i) {
      words.push_back(" " + *rc::gen::nonEmpty(rc::gen::container<std::string>(rc::gen::element('a', 'b', 'c'))));
      text += words.back();
    }
    BpeTrainer trainer(Pattern::gpt2);
    trainer.add(text);
    const BpeVocabulary vocabulary = trainer.finish(290);
    const auto expected = learned_naively(words, 290);
    RC_ASSERT(vocabulary.merges.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      RC_ASSERT(std::pair(vocabulary.merges[i].left, vocabulary.merges[i].right) == expected[i]);
      RC_ASSERT(vocabulary.merges[i].result == 256 + i);
    }
  }));
}

TEST(BpeTrainer, TheFirstTokensAreTheBytesInTheOrderOfGpt2) {
  const BpeVocabulary vocabulary = BpeTrainer(Pattern::gpt2).finish(300);
  ASSERT_EQ(vocabulary.tokens.size(), 256u);
  EXPECT_EQ(vocabulary.tokens[0], "!");
  EXPECT_EQ(vocabulary.tokens[93], "~");
  EXPECT_EQ(vocabulary.tokens[94], "\xa1");
  EXPECT_EQ(vocabulary.tokens[188], std::string(1, '\0'));
  EXPECT_EQ(vocabulary.tokens[198], "\n");
  EXPECT_EQ(vocabulary.tokens[220], " ");
}

TEST(BpeTrainer, AVeryLongWordIsLearnedFrom) {
  BpeTrainer trainer(Pattern::gpt2);
  trainer.add(std::string(100'000, 'a'));
  const BpeVocabulary vocabulary = trainer.finish(300);
  EXPECT_EQ(vocabulary.tokens[256], "aa");
  EXPECT_EQ(vocabulary.tokens[257], "aaaa");
}

TEST(WordCounts, CountsEveryWordWhereMemoryIsEnough) {
  EXPECT_TRUE(rc::check([] {
    const auto words = *rc::gen::container<std::vector<std::string>>(
        rc::gen::container<std::string>(rc::gen::element('a', 'b', '\0')));
    WordCounts counts(1 << 20);
    std::map<std::string, std::uint64_t> expected;
    for (const std::string& word : words) {
      counts.add(word);
      ++expected[word];
    }
    RC_ASSERT(counts.size() == expected.size());
    for (std::size_t i = 0; i < counts.size(); ++i)
      RC_ASSERT(expected.at(std::string(counts.word(i))) == counts.count(i));
  }));
}

TEST(WordCounts, ForgetsTheRarestWhereMemoryEnds) {
  WordCounts counts(100'000);
  for (int i = 0; i < 200'000; ++i) {
    counts.add("often" + std::to_string(i % 100));
    counts.add("once" + std::to_string(i));
  }
  std::map<std::string, std::uint64_t> found;
  for (std::size_t i = 0; i < counts.size(); ++i) found[std::string(counts.word(i))] = counts.count(i);
  EXPECT_LT(found.size(), 12'500u) << "more words than fit";
  for (int i = 0; i < 100; ++i) EXPECT_EQ(found["often" + std::to_string(i)], 2000u);
}

}  // namespace
}  // namespace inkling
