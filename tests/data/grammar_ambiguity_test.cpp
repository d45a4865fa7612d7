#include "data/grammar_graph.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <ctime>
#include <iostream>
#include <set>

#include "base/strings.h"
#include "data/grammar.h"
#include "tests/data/every_story.h"

namespace inkling {
namespace {

// The message of the refusal, or nothing where the grammar is accepted.
std::string refusal(const std::string& source) {
  try {
    Grammar::parse(source, "g");
    return {};
  } catch (const Error& error) {
    return error.message();
  }
}

TEST(GrammarAmbiguity, TwoWaysToOneTextAreNamedWithTheText) {
  EXPECT_EQ(refusal("story:\n * a {x}\n * {y} c\nx:\n * b c\n * d\ny:\n * a b\n"),
            "g:2:2: this production and the one at g:3:2 can both go on with \"a b c\", so a text could be made in two "
            "ways and its probability would not be known; let the two differ in what they write here");
}

TEST(GrammarAmbiguity, OneProductionWrittenTwiceIsRefused) {
  EXPECT_EQ(refusal("story:\n * go {w}\nw:\n * a\n * b\n * a\n").substr(0, 35), "g:4:2: this production and the one ");
}

TEST(GrammarAmbiguity, BordersThatCanBeDrawnTwiceAreRefused) {
  EXPECT_NE(refusal("story:\n * {x}{y}\nx:\n * a\n * ab\ny:\n * bc\n * c\n"), "");              // a-bc, ab-c
  EXPECT_EQ(refusal("story:\n * {x} {y}\nx:\n * a\n * ab\ny:\n * bc\n * c\n"), "");             // the blank tells
  EXPECT_NE(refusal("story:\n * {x}{y}{z}\nx:\n *\n * a\ny:\n *\n * b\nz:\n * \n * a\n"), "");  // a: first or last
  EXPECT_NE(refusal("story:\n * {x}{x}\nx:\n *\n * a\n"), "");
  EXPECT_EQ(refusal("story:\n * {x}{x}\nx:\n * aa\n * a!\n"), "");
}

TEST(GrammarAmbiguity, AVariableWhoseValueShowsLaterIsRefusedUnlessItStaysApart) {
  // Both write "a pet": the walkers join, and the mention that would tell is not looked at.
  EXPECT_NE(refusal("story:\n * {v=w} {v.name}\nw | name:\n * a pet | Rex\n * a pet | Tom\n"), "");
  // Remembered exactly, because its column chooses: accepted.
  EXPECT_EQ(refusal("story:\n * {v=w} {v.name}\nw | name:\n * a pet | Rex{e}\n * a pet | Tom{e}\ne:\n * !\n * ?\n"),
            "");
  // Seen at once: accepted.
  EXPECT_EQ(refusal("story:\n * {v=w} {v.name}\nw | name:\n * a dog | it\n * a cat | it\n"), "");
}

TEST(GrammarAmbiguity, ManyChoicesAreCheckedQuickly) {
  std::string source = "story:\n * ";
  for (int i = 0; i < 60; ++i) source += "{v" + std::to_string(i) + "=w} {v" + std::to_string(i / 2) + "} ";
  source += "\nw:\n";
  for (int i = 0; i < 30; ++i) source += " * common beginning " + std::to_string(100 + i) + "\n";
  const std::clock_t begin = std::clock();
  EXPECT_EQ(refusal(source), "");
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 5);
}

// A random grammar over a tiny alphabet: three layers of rules, variables and mentions, often ambiguous.
std::string random_grammar() {
  // Full range from the first case on: rapidcheck would begin with the smallest grammars, which are never ambiguous.
  const auto number = [](int below) { return *rc::gen::resize(100, rc::gen::inRange(0, below)); };
  const auto text = [] { return *rc::gen::element<std::string>("", "a", "b", "ab", "aa"); };
  const auto field = [&](const std::vector<std::string>& references) {
    std::string result = text();
    const int count = number(4);
    for (int i = 0; i < count; ++i) result += *rc::gen::elementOf(references) + text();
    return result;
  };
  std::string source = "story:\n";
  const auto productions = [&](int columns, const std::vector<std::string>& references) {
    const int count = 1 + number(3);
    for (int i = 0; i < count; ++i) {
      source += str(" ", 1 + number(4), " * ");
      for (int column = 0; column < columns; ++column) source += (column ? " | " : "") + field(references);
      source += "\n";
    }
  };
  const int count = 1 + number(2);
  for (int i = 0; i < count; ++i) {
    source += " * {v=low}{w=high}" + field({"{v}", "{v.more}", "{w}", "{^w.more}", "{low}", "{high.more}"}) + "\n";
  }
  source += "high | more:\n";
  productions(2, {"{low}", "{low.more}", "{v}", "{v.more}", "{u=low}", "{^low}"});
  source += "low | more:\n";
  productions(2, {""});
  return source;
}

struct Tally {
  int accepted = 0, ambiguous = 0, refused_without_need = 0;
};

void check_against_every_story(const std::string& source, Tally& tally) {
  const grammar::Syntax syntax = grammar::read_syntax(source, "g");
  const auto stories = every_story(syntax);
  std::set<std::string> texts;
  double entropy = 0, mean = 0;
  std::size_t longest = 0;
  for (const auto& [text, probability] : stories) {
    texts.insert(text);
    entropy -= probability * std::log(probability);
    mean += probability * static_cast<double>(text.size());
    longest = std::max(longest, text.size());
  }
  const bool unique = texts.size() == stories.size();
  tally.ambiguous += !unique;
  if (!refusal(source).empty()) {
    tally.refused_without_need += unique;
    return;
  }
  ++tally.accepted;
  RC_ASSERT(unique);
  const Grammar grammar = Grammar::parse(source, "g");
  RC_ASSERT(std::abs(grammar.entropy() - entropy) < 1e-9);
  RC_ASSERT(std::abs(grammar.mean_length() - mean) < 1e-9);
  RC_ASSERT(grammar.longest() == longest);
  for (const auto& [text, probability] : stories) {
    RC_ASSERT(std::abs(std::exp(-grammar.nats(text)) - probability) < 1e-9);
  }
}

TEST(GrammarAmbiguity, NoAcceptedGrammarHasTwoDerivationsOfOneText) {
  Tally tally;
  EXPECT_TRUE(rc::check([&] {
    for (int i = 0; i < 15; ++i) check_against_every_story(random_grammar(), tally);
  }));
  std::cout << tally.accepted << " accepted, " << tally.ambiguous << " ambiguous, " << tally.refused_without_need
            << " refused without need\n";
  EXPECT_GT(tally.accepted, 30);   // the check lets something through
  EXPECT_GT(tally.ambiguous, 10);  // and had something to refuse
}

}  // namespace
}  // namespace inkling
