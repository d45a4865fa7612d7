#include "text/bpe_encoder.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <chrono>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/strings.h"
#include "tests/temporary_folder.h"
#include "text/bpe_trainer.h"
#include "text/bpe_vocabulary.h"

namespace inkling {
namespace {

BpeVocabulary bytes_alone() {
  BpeVocabulary vocabulary;
  for (const char byte : bytes_by_sign()) vocabulary.tokens.emplace_back(1, byte);
  return vocabulary;
}

// Adds the merge of two texts, which must be tokens, if their result is none yet or `again` is said.
void add_merge(BpeVocabulary& vocabulary, const std::string& left, const std::string& right, bool again = false) {
  const auto find = [&](const std::string& bytes) {
    return static_cast<Token>(std::find(vocabulary.tokens.begin(), vocabulary.tokens.end(), bytes) -
                              vocabulary.tokens.begin());
  };
  const Token result = find(left + right);
  if (result == vocabulary.tokens.size()) {
    vocabulary.tokens.push_back(left + right);
  } else if (!again) {
    return;
  }
  vocabulary.merges.push_back({find(left), find(right), result});
}

// The definition, without any cleverness.
std::vector<Token> merged_naively(const BpeVocabulary& vocabulary, std::string_view word) {
  std::vector<Token> tokens;
  for (const char byte : word) {
    tokens.push_back(static_cast<Token>(bytes_by_sign().find(byte)));
  }
  while (true) {
    std::size_t best = vocabulary.merges.size(), place = 0;
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
      for (std::size_t rank = 0; rank < best; ++rank) {
        const Merge& merge = vocabulary.merges[rank];
        if (merge.left == tokens[i] && merge.right == tokens[i + 1]) best = rank, place = i;
      }
    }
    if (best == vocabulary.merges.size()) return tokens;
    tokens[place] = vocabulary.merges[best].result;
    tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(place) + 1);
  }
}

rc::Gen<std::string> letters(int kinds) {
  return rc::gen::container<std::string>(rc::gen::map(rc::gen::inRange(0, kinds), [](int i) { return char('a' + i); }));
}

// Merges in an order that no training would give, some of one result in several ways.
BpeVocabulary any_merges(int kinds) {
  BpeVocabulary vocabulary = bytes_alone();
  std::vector<std::string> known;
  for (int i = 0; i < kinds; ++i) known.emplace_back(1, char('a' + i));
  const int count = *rc::gen::inRange(0, 40);
  for (int i = 0; i < count; ++i) {
    const std::string left = *rc::gen::elementOf(known), right = *rc::gen::elementOf(known);
    if (left.size() + right.size() > 8) continue;
    add_merge(vocabulary, left, right, *rc::gen::inRange(0, 3) == 0);
    known.push_back(left + right);
  }
  return vocabulary;
}

std::vector<Token> merged(const BpeEncoder& encoder, std::string_view word) {
  std::vector<Token> tokens;
  encoder.merge_word(word, tokens);
  return tokens;
}

TEST(BpeEncoder, AnyMergesAreDoneAsTheDefinitionSays) {
  EXPECT_TRUE(rc::check([] {
    const int kinds = *rc::gen::inRange(1, 4);
    const BpeVocabulary vocabulary = any_merges(kinds);
    const BpeEncoder encoder(vocabulary);
    const std::string word = *letters(kinds);
    const std::vector<Token> expected = merged_naively(vocabulary, word);
    RC_ASSERT(merged(encoder, word) == expected);
    std::vector<Token> tokens;
    encoder.encode(word, tokens);
    RC_ASSERT(tokens == expected);
  }));
}

TEST(BpeEncoder, MergesInAnImpossibleOrderAreDoneAsTheDefinitionSays) {
  EXPECT_TRUE(rc::check([] {
    const int kinds = *rc::gen::inRange(1, 4);
    BpeVocabulary vocabulary = any_merges(kinds);
    for (std::size_t i = vocabulary.merges.size(); i > 1; --i) {
      std::swap(vocabulary.merges[i - 1], vocabulary.merges[*rc::gen::inRange<std::size_t>(0, i)]);
    }
    const BpeEncoder encoder(vocabulary);
    const std::string word = *letters(kinds);
    std::vector<Token> tokens;
    encoder.encode(word, tokens);
    RC_ASSERT(tokens == merged_naively(vocabulary, word));
  }));
}

TEST(BpeEncoder, LongWordsOfALearnedVocabularyGoFromLeftToRightToTheSameTokens) {
  EXPECT_TRUE(rc::check([] {
    const int kinds = *rc::gen::inRange(1, 5);
    BpeTrainer trainer(Pattern::gpt2);
    for (int i = 0; i < 20; ++i) trainer.add(*letters(kinds) + " ");
    const BpeEncoder encoder(trainer.finish(400));
    std::string word;
    for (int i = 0; i < 30; ++i) word += *letters(kinds);
    std::vector<Token> tokens;
    encoder.encode_word(word, tokens);
    RC_ASSERT(tokens == merged(encoder, word));
  }));
}

TEST(BpeEncoder, AWordThatIsATokenStaysWholeWhereThatIsTheRule) {
  BpeVocabulary vocabulary = bytes_alone();
  vocabulary.tokens.emplace_back("abc");  // which no merge makes
  std::vector<Token> tokens;
  BpeEncoder(vocabulary).encode("abc abc", tokens);
  EXPECT_EQ(tokens.size(), 7u);
  vocabulary.words_are_tokens = true;
  tokens.clear();
  BpeEncoder(vocabulary).encode("abc abc abcd", tokens);
  EXPECT_EQ(tokens[0], 256u);
  EXPECT_EQ(tokens.size(), 1u + 4u + 5u) << "a space makes it another word";
}

TEST(BpeEncoder, ImpossibleVocabulariesAreRefused) {
  BpeVocabulary vocabulary = bytes_alone();
  vocabulary.tokens[10].clear();
  EXPECT_TRUE(contains(input_error([&] { BpeEncoder{vocabulary}; }), "no token stands for the byte"));
  vocabulary = bytes_alone();
  vocabulary.merges.push_back({0, 1, 2});
  EXPECT_TRUE(contains(input_error([&] { BpeEncoder{vocabulary}; }), "merge 1 does not make"));
  vocabulary.merges.clear();
  for (int i = 0; i < 17; ++i) vocabulary.tokens.emplace_back(1'000'000 + i, 'a');
  EXPECT_TRUE(contains(input_error([&] { BpeEncoder{vocabulary}; }), "and inkling takes 16.0 MiB"));
  vocabulary = bytes_alone();
  vocabulary.merges = {{0, 1, 5000}};
  EXPECT_TRUE(contains(input_error([&] { BpeEncoder{vocabulary}; }), "merge 1 does not make"));
}

TEST(BpeEncoder, SeveralThreadsGetTheSameTokens) {
  BpeTrainer trainer(Pattern::gpt2);
  std::string text;
  for (int i = 0; i < 3000; ++i) text += "word" + std::to_string(i * i % 977) + (i % 7 == 0 ? ".\n" : " ");
  trainer.add(text);
  const BpeEncoder encoder(trainer.finish(500));
  std::vector<Token> expected;
  encoder.encode(text, expected);
  std::vector<std::vector<Token>> found(4);
  std::vector<std::thread> threads;
  for (auto& tokens : found) threads.emplace_back([&] { encoder.encode(text, tokens); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& tokens : found) EXPECT_EQ(tokens, expected);
}

// A word of n bytes must take time in proportion to n: ten times the word, ten times the time. (A quadratic way takes a
// hundred times as long; the limit lies in between, as machines are busy.)
TEST(BpeEncoder, AMegabyteWithoutABoundaryTakesLinearTime) {
  BpeTrainer trainer(Pattern::gpt2);
  for (const char* word : {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa ", "abababababab ", "the ", "banana "}) {
    for (int i = 0; i < 3; ++i) trainer.add(word);
  }
  const BpeEncoder encoder(trainer.finish(290));
  std::string mixed;
  for (int i = 0; mixed.size() < 1'000'000; ++i) mixed += std::string(i * 7919 % 23, 'a') + (i % 3 == 0 ? "ban" : "b");
  for (const std::string& word : {std::string(1'000'000, 'a'), mixed}) {
    const auto seconds = [&](std::size_t length) {
      double best = 1e9;
      for (int round = 0; round < 3; ++round) {
        std::vector<Token> tokens;
        const auto start = std::chrono::steady_clock::now();
        encoder.encode(std::string_view(word).substr(0, length), tokens);
        best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
      }
      return best;
    };
    EXPECT_LT(seconds(1'000'000), 40 * seconds(100'000));
  }
}

}  // namespace
}  // namespace inkling
