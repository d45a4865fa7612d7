#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "data/grammar.h"

namespace inkling {
namespace {

struct Mistake {
  std::string source;
  std::string message;  // what the message begins with
};

class GrammarMistake : public testing::TestWithParam<Mistake> {};

TEST_P(GrammarMistake, IsRefusedWithItsPlace) {
  try {
    Grammar::parse(GetParam().source, "g");
    FAIL() << "accepted:\n" << GetParam().source;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::input);
    EXPECT_EQ(error.message().substr(0, GetParam().message.size()), GetParam().message) << error.message();
  }
}

std::string nested(int depth) {
  std::string source = "story:\n * {r0}\n";
  for (int i = 0; i < depth; ++i) source += "r" + std::to_string(i) + ":\n * {r" + std::to_string(i + 1) + "}\n";
  return source + "r" + std::to_string(depth) + ":\n * x\n";
}

std::string doubling(int depth) {
  std::string source = "story:\n * {r0}\n";
  for (int i = 0; i < depth; ++i) {
    const std::string next = "{r" + std::to_string(i + 1) + "}";
    source += "r" + std::to_string(i) + ":\n * " + next + next + "\n";
  }
  return source + "r" + std::to_string(depth) + ":\n * x\n";
}

INSTANTIATE_TEST_SUITE_P(
    All, GrammarMistake,
    testing::Values(
        Mistake{"", "g:1:1: there is no rule `story:`"}, Mistake{"tale:\n * x\n", "g:1:1: there is no rule `story:`"},
        Mistake{"story\n * x\n", "g:1:1: a rule ends with `:`"},
        Mistake{" * x\n", "g:1:2: a production needs a rule above it"},
        Mistake{"story:\n  x\n", "g:2:3: a production begins with `*`"},
        Mistake{"Story:\n * x\n", "g:1:1: \"Story\" is not a name"},
        Mistake{"story | a b:\n * x | y\n", "g:1:8: \"a b\" is not a name"},
        Mistake{"story | a | a:\n * x | y | z\n", "g:1:12: the column \"a\" appears twice"},
        Mistake{"story:\n * x\nstory:\n * y\n", "g:3:1: the rule \"story\" was begun in line 1"},
        Mistake{"story:\n", "g:1:1: the rule \"story\" has no production"},
        Mistake{"story:\n * x | y\n", "g:2:2: this production has 2 column(s), the rule \"story\" has 1"},
        Mistake{"story:\n -1 * x\n", "g:2:2: the weight \"-1\" is not a positive number"},
        Mistake{"story:\n 0 * x\n", "g:2:2: the weight \"0\" is not a positive number"},
        Mistake{"story:\n 1e999 * x\n", "g:2:2: the weight \"1e999\" is not a positive number"},
        Mistake{"story:\n 1.2.3 * x\n", "g:2:2: the weight \"1.2.3\" is not a positive number"},
        Mistake{"story:\n 1e-320 * x\n 1e300 * y\n", "g:2:2: "}, Mistake{"story:\n * a {b\n", "g:2:6: `{` without `}`"},
        Mistake{"story:\n * a b}\n", "g:2:7: `}` without `{`"},
        Mistake{"story:\n * {a {b}}\n", "g:2:4: `{` without `}`"},
        Mistake{"story:\n * {}\n", "g:2:4: \"\" is not a name"},
        Mistake{"story:\n * {=b}\n", "g:2:4: \"\" is not a name"},
        Mistake{"story:\n * {b.}\n", "g:2:4: \"\" is not a name"},
        Mistake{"story:\n * a \\x\n", "g:2:6: after `\\` comes one of"},
        Mistake{"story:\n * a \\\n", "g:2:6: after `\\` comes one of"},
        Mistake{"story:\n * {animl}\nanimal:\n * x\n", "g:2:4: there is no rule \"animl\"; do you mean \"animal\"?"},
        Mistake{"story:\n * go\n   {qqqqqqqq}\n", "g:3:4: there is no rule \"qqqqqqqq\"; add `qqqqqqqq:`"},
        Mistake{"story:\n * {h=a} {h.he}\na | she:\n * x | y\n",
                "g:2:10: the rule \"a\" (line 3) has no column \"he\""},
        Mistake{"story:\n * {a.he}\na | she:\n * x | y\n", "g:2:4: the rule \"a\" (line 3) has no column \"he\""},
        Mistake{"story:\n * {a=a}\na:\n * x\n", "g:2:4: \"a\" is a rule; give the variable another name"},
        Mistake{"story:\n * x\nlost:\n * y\n", "g:3:1: nothing in `story` leads to the rule \"lost\""},
        Mistake{"story:\n * {story}\n", "g:2:4: the rule \"story\" leads back to itself"},
        Mistake{"story:\n * {a}\na:\n * x\n * y {b}\nb:\n * z {a}\n", "g:7:6: the rule \"a\" leads back to itself"},
        Mistake{"story:\n * {v=a} {v.c}\na | c:\n * x | {v.c}\n", "g:4:8: the rule \"a\" leads back to itself"},
        Mistake{"story:\n * {v} {v=a}\na:\n * x\n * y\n",
                "g:2:4: some text comes here before anything is chosen for \"v\""},
        Mistake{"story:\n * {o} {v}\no:\n * p {v=a}\n * q\na:\n * x\n * y\n", "g:2:8: some text comes here before"},
        Mistake{nested(300), "g:404:4: rules are nested more than 200 deep"},
        Mistake{doubling(30), "g:64:4: a text would be longer than 64 KiB"},
        Mistake{"story:\n * x\n * \xff\n", "g:3:1: this line is not UTF-8"}));

TEST(GrammarFile, MissingFileIsNamed) {
  try {
    Grammar::load("/no/such/tales.grammar");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::input);
    EXPECT_NE(error.message().find("tales.grammar"), std::string::npos) << error.message();
  }
}

TEST(GrammarFile, WindowsLineEndsAndTabsAreFine) {
  const Grammar grammar = Grammar::parse("story:\r\n\t* a\r\n\t  b \\\\\\|\\*\r\n", "g");
  EXPECT_EQ(grammar.expand(1, 1).text, "a b \\|*");
}

}  // namespace
}  // namespace inkling
