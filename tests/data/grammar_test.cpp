#include "data/grammar.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "data/grammar_syntax.h"
#include "tests/data/every_story.h"

namespace inkling {
namespace {

// Remembers names with a column that chooses in its turn, names of different lengths, weights, an empty production, a
// capital and a text that is a beginning of another.
constexpr std::string_view small = R"(
# A comment.
story:
  * {^hero=animal} met {friend=hero_friend}. {^hero.he} {said=verb} "{mood}" to the {friend},
    so the {friend} {said.back}.\n
  0.5 * {^sight} {hero=animal.he} ran{far}\n

hero_friend:
  * dog
  2 * doge

animal | he | end:
  * a fox | she | {mood}
  * bees  | it  | x

sight:
  3 * suddenly
  * so

far:
  *
  1e0 * \_far \{away\}

verb | back:
  * sang  | {hero.end} and {mood}
  * cried | wept with {hero.he}

mood:
  * hi
  * ho
  3 * ha
)";

constexpr double infinite = std::numeric_limits<double>::infinity();

TEST(Grammar, MakesStoriesOfTheirWrittenForm) {
  const Grammar grammar = Grammar::parse(small, "small");
  std::set<std::string> texts;
  for (std::uint64_t i = 0; i < 3000; ++i) texts.insert(grammar.expand(1, i).text);
  EXPECT_TRUE(texts.count("A fox met doge. She cried \"ha\" to the doge, so the doge wept with she.\n"));
  EXPECT_TRUE(texts.count("Bees met dog. It sang \"hi\" to the dog, so the dog x and ho.\n"));
  EXPECT_TRUE(texts.count("So it ran far {away}\n"));
  EXPECT_TRUE(texts.count("Suddenly she ran\n"));
  EXPECT_EQ(grammar.production_count(), 15u);
}

TEST(Grammar, StoryIsAFunctionOfSeedAndIndex) {
  const Grammar grammar = Grammar::parse(small, "small"), again = Grammar::parse(small, "elsewhere");
  std::set<std::string> across_seeds;
  for (std::uint64_t i = 0; i < 50; ++i) {
    EXPECT_EQ(grammar.expand(7, i).text, again.expand(7, i).text);
    across_seeds.insert(grammar.expand(i, 3).text);
  }
  EXPECT_GT(across_seeds.size(), 10u);
}

TEST(Grammar, ParsingFindsTheProbabilityThatExpandingUsed) {
  const Grammar grammar = Grammar::parse(small, "small");
  for (std::uint64_t i = 0; i < 500; ++i) {
    const Story story = grammar.expand(2, i);
    EXPECT_NEAR(grammar.nats(story.text), story.nats, 1e-10) << story.text;
  }
}

TEST(Grammar, ProbabilitiesOfAllStoriesSumToOne) {
  const Grammar grammar = Grammar::parse(small, "small");
  const grammar::Syntax syntax = grammar::read_syntax(small, "small");
  double sum = 0;
  std::set<std::string> texts;
  for (const auto& [text, probability] : every_story(syntax)) {
    EXPECT_TRUE(texts.insert(text).second) << text;
    EXPECT_NEAR(std::exp(-grammar.nats(text)), probability, 1e-12) << text;
    sum += std::exp(-grammar.nats(text));
  }
  EXPECT_NEAR(sum, 1, 1e-12);
}

TEST(Grammar, EntropyAndLengthsAreThoseOfAllStories) {
  const Grammar grammar = Grammar::parse(small, "small");
  const grammar::Syntax syntax = grammar::read_syntax(small, "small");
  double entropy = 0, mean = 0;
  std::size_t longest = 0;
  for (const auto& [text, probability] : every_story(syntax)) {
    entropy -= probability * std::log(probability);
    mean += probability * static_cast<double>(text.size());
    longest = std::max(longest, text.size());
  }
  EXPECT_NEAR(grammar.entropy(), entropy, 1e-12);
  EXPECT_NEAR(grammar.mean_length(), mean, 1e-12);
  EXPECT_EQ(grammar.longest(), longest);
}

// The longest name does not have the longest pronoun: the longest story is not the sum of the longest words.
TEST(Grammar, LongestStoryKeepsAVariablesColumnsTogether) {
  const Grammar grammar = Grammar::parse(
      "story:\n * {hero=name} {hero.he} {hero.he} {hero.he}\nname | he:\n * Alexander | he\n * Bo | himself\n * Al | "
      "he\n",
      "g");
  EXPECT_EQ(grammar.longest(), std::string("Bo himself himself himself").size());
}

TEST(Grammar, StoriesAppearAsOftenAsTheirProbabilitySays) {
  const Grammar grammar = Grammar::parse("story:\n 3 * a\n * b\n 0.5 * c{more}\nmore:\n * \n 3 * d\n", "g");
  std::map<std::string, int> counts;
  constexpr int total = 20000;
  for (std::uint64_t i = 0; i < total; ++i) ++counts[grammar.expand(5, i).text];
  for (const auto& [text, count] : counts) {
    const double probability = std::exp(-grammar.nats(text));
    const double deviation = std::sqrt(total * probability * (1 - probability));
    EXPECT_NEAR(count, total * probability, 5 * deviation) << text;
  }
  EXPECT_EQ(counts.size(), 4u);
}

TEST(Grammar, EveryByteCostsWhatItsBeginningLeavesOpen) {
  const Grammar grammar = Grammar::parse("story:\n * ab\n * ac\n 2 * b{more}\nmore:\n *\n 3 * !\n", "g");
  const std::vector<double> ab = grammar.nats_per_byte("ab");
  ASSERT_EQ(ab.size(), 3u);
  EXPECT_NEAR(ab[0], std::log(2), 1e-12);  // a or b
  EXPECT_NEAR(ab[1], std::log(2), 1e-12);  // ab or ac
  EXPECT_NEAR(ab[2], 0, 1e-12);            // nothing can follow
  const std::vector<double> b = grammar.nats_per_byte("b");
  ASSERT_EQ(b.size(), 2u);
  EXPECT_NEAR(b[0], std::log(2), 1e-12);
  EXPECT_NEAR(b[1], std::log(4), 1e-12);  // the end, where an exclamation mark is three times as likely
}

TEST(Grammar, NatsPerByteAddUpToTheStorysNats) {
  const Grammar grammar = Grammar::parse(small, "small");
  for (std::uint64_t i = 0; i < 100; ++i) {
    const Story story = grammar.expand(3, i);
    double sum = 0;
    for (const double nats : grammar.nats_per_byte(story.text)) {
      EXPECT_GT(nats, -1e-12);
      sum += nats;
    }
    EXPECT_NEAR(sum, story.nats, 1e-10);
  }
}

TEST(Grammar, TextItCannotMakeIsInfinitelyUnlikely) {
  const Grammar grammar = Grammar::parse("story:\n * {x=w} {x}\nw:\n * one\n * two\n", "g");
  EXPECT_NEAR(grammar.nats("one one"), std::log(2), 1e-12);
  EXPECT_EQ(grammar.nats("one two"), infinite);
  EXPECT_EQ(grammar.nats("one"), infinite);
  EXPECT_EQ(grammar.nats("one one "), infinite);
  EXPECT_EQ(grammar.nats(""), infinite);
  const std::vector<double> nats = grammar.nats_per_byte("one two");
  EXPECT_NEAR(nats[3], 0, 1e-12);
  EXPECT_EQ(nats[4], infinite);
  EXPECT_EQ(nats.back(), infinite);
}

}  // namespace
}  // namespace inkling
