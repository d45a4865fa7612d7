// The shipped corpus: what is promised about data/fables.grammar. The test prints the figures that it checks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <iostream>
#include <set>
#include <sstream>

#include "base/files.h"
#include "base/strings.h"
#include "data/grammar.h"
#include "data/grammar_syntax.h"
#include "tests/data/character_ngram.h"

namespace inkling {
namespace {

constexpr std::size_t story_size = 256;

class Fables : public testing::Test {
 protected:
  static const Grammar& grammar() {
    static const Grammar fables = Grammar::load(INKLING_SOURCE_DIR "/data/fables.grammar");
    return fables;
  }
};

TEST_F(Fables, LoadInAMoment) {
  const std::clock_t begin = std::clock();  // processor time: other work on the machine does not count
  Grammar::load(INKLING_SOURCE_DIR "/data/fables.grammar");
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  std::cout << format_fixed(seconds * 1e3, 1) << " ms to read, check for ambiguity and measure\n";
  EXPECT_LT(seconds, 1.0);
}

TEST_F(Fables, AreRichAndFitIntoABlock) {
  std::cout << grammar().production_count() << " productions; a story has " << format_fixed(grammar().entropy(), 2)
            << " nats and " << format_fixed(grammar().mean_length(), 1) << " characters in the mean, "
            << grammar().longest() << " at most; best possible loss "
            << format_fixed(grammar().entropy() / (grammar().mean_length() + 1), 4)
            << " nats per character, separators counted\n";
  EXPECT_GE(grammar().production_count(), 150u);
  EXPECT_LE(grammar().longest() + 1, story_size);  // the separator too
}

TEST_F(Fables, HaveNoRareProductions) {
  const std::string path = INKLING_SOURCE_DIR "/data/fables.grammar";
  for (const grammar::Rule& rule : grammar::read_syntax(read_small_file(path), path).rules) {
    for (const grammar::Production& production : rule.productions) {
      EXPECT_GE(production.probability, 0.03) << rule.name << ", line " << production.place.line;
    }
  }
}

TEST_F(Fables, AreOneLineOfPlainTextEach) {
  for (std::uint64_t i = 0; i < 5000; ++i) {
    const std::string text = grammar().expand(1, i).text;
    EXPECT_EQ(text.find('\n'), text.size() - 1) << text;
    EXPECT_TRUE(std::all_of(text.begin(), text.end() - 1, [](char c) { return c >= ' ' && c <= '~'; })) << text;
    EXPECT_TRUE(text[0] == '"' || (text[0] >= 'A' && text[0] <= 'Z')) << text;
  }
}

// What a proofreader would mark wherever it appears: articles, doubled words and blanks, sentences that begin small.
std::string mistake_in(const std::string& text) {
  std::istringstream words(text);
  std::string before, word;
  while (words >> word) {
    const bool vowel = std::string_view("aeiou").find(word[0]) != std::string_view::npos;
    if (vowel && (before == "a" || before == "A")) return "a " + word;
    if (!vowel && (before == "an" || before == "An")) return "an " + word;
    if (word == before) return word + " " + word;
    if (before.ends_with('.') && word[0] >= 'a' && word[0] <= 'z') return before + " " + word;
    before = word;
  }
  for (const char* blank : {"  ", " .", " ,", " ?", " !", " \n"}) {
    if (text.find(blank) != std::string::npos) return blank;
  }
  return {};
}

TEST_F(Fables, KeepTheRulesOfEnglish) {
  std::set<std::string> shown;
  for (std::uint64_t i = 0; i < 20000; ++i) {
    const std::string text = grammar().expand(2, i).text;
    const std::string mistake = mistake_in(text);
    if (!mistake.empty() && shown.insert(mistake).second) ADD_FAILURE() << mistake << ": " << text;
  }
}

TEST_F(Fables, ParsingThemGivesTheirProbability) {
  double difference = 0, nats = 0;
  constexpr int count = 2000;
  for (std::uint64_t i = 0; i < count; ++i) {
    const Story story = grammar().expand(3, i);
    difference = std::max(difference, std::abs(grammar().nats(story.text) - story.nats));
    nats += story.nats;
  }
  EXPECT_LT(difference, 1e-9);
  EXPECT_NEAR(nats / count, grammar().entropy(), 0.02 * grammar().entropy());
}

// Without looking back further than four characters, the fables cannot be told well: the task is not trivial.
TEST_F(Fables, AFiveGramModelStaysFarAboveTheBestPossibleLoss) {
  CharacterNgram model(5);
  for (std::uint64_t i = 0; i < 20000; ++i) model.train(grammar().expand(1, i).text);
  double loss = 0, bound = 0;
  std::size_t characters = 0;
  for (std::uint64_t i = 20000; i < 22000; ++i) {
    const Story story = grammar().expand(1, i);
    loss += model.nats(story.text);
    bound += story.nats;
    characters += story.text.size() + 1;
  }
  const double per_character = 1 / static_cast<double>(characters);
  std::cout << "5-gram " << format_fixed(loss * per_character, 4) << " nats per character, bound "
            << format_fixed(bound * per_character, 4) << ", ratio " << format_fixed(loss / bound, 3) << "\n";
  EXPECT_GE(loss / bound, 1.30);
}

}  // namespace
}  // namespace inkling
