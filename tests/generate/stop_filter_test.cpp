// Stop strings in a text that arrives by pieces.
#include "text/text_stream.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>
#include <vector>

#include "tests/temporary_folder.h"

namespace inkling {
namespace {

struct Filtered {
  std::string text;
  bool found = false;
};

Filtered filter(const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
  StopFilter stop(stops);
  Filtered result;
  for (const std::string& piece : pieces) result.text += stop.push(piece);
  result.found = stop.found();
  result.text += stop.finish();
  return result;
}

TEST(StopFilter, TextEndsBeforeTheStopString) {
  const Filtered result = filter({"END"}, {"one END two"});
  EXPECT_TRUE(result.found);
  EXPECT_EQ(result.text, "one ");
}

TEST(StopFilter, AStopStringIsFoundAcrossPieces) {
  const Filtered result = filter({"\n\nROMEO"}, {"say.\n", "\nRO", "MEO: ay"});
  EXPECT_TRUE(result.found);
  EXPECT_EQ(result.text, "say.");
}

TEST(StopFilter, TextThatMayBelongToAStopStringWaitsAndTheRestDoesNot) {
  StopFilter stop({"abc"});
  EXPECT_EQ(stop.push("xa"), "x");
  EXPECT_EQ(stop.push("b"), "");
  EXPECT_EQ(stop.push("d"), "abd");
  EXPECT_EQ(stop.push("ab"), "");
  EXPECT_EQ(stop.finish(), "ab");
  EXPECT_FALSE(stop.found());
}

TEST(StopFilter, NothingComesAfterTheStopString) {
  StopFilter stop({"."});
  EXPECT_EQ(stop.push("end. More"), "end");
  EXPECT_EQ(stop.push("more"), "");
  EXPECT_EQ(stop.finish(), "");
}

TEST(StopFilter, TheFirstCompleteStopStringCounts) {
  EXPECT_EQ(filter({"abcd", "c"}, {"ab", "cd"}).text, "ab");
  EXPECT_EQ(filter({"abcd", "c"}, {"abcd"}).text, "ab");
  EXPECT_EQ(filter({"bc", "abc"}, {"xabc"}).text, "x");  // complete with the same character: the longer one
}

TEST(StopFilter, WithoutStopStringsEverythingPasses) { EXPECT_EQ(filter({}, {"a", "", "b"}).text, "ab"); }

TEST(StopFilter, AnEmptyStopStringIsRefused) {
  const auto error = error_of([] { StopFilter({"a", ""}); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::input);
  EXPECT_NE(error->message().find("is empty"), std::string::npos);
}

// The definition: cut the text after each character and see which beginning first ends in a stop string.
Filtered expected(const std::vector<std::string>& stops, const std::string& text) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::size_t longest = 0;
    for (const std::string& stop : stops) {
      if (text.substr(0, end).ends_with(stop)) longest = std::max(longest, stop.size());
    }
    if (longest > 0) return {text.substr(0, end - longest), true};
  }
  return {text, false};
}

TEST(StopFilter, HowTheTextIsCutDoesNotMatter) {
  EXPECT_TRUE(rc::check([] {
    const auto letters = rc::gen::elementOf(std::string("ab"));
    const auto word = rc::gen::nonEmpty(rc::gen::resize(5, rc::gen::container<std::string>(letters)));
    const auto stops = *rc::gen::resize(3, rc::gen::container<std::vector<std::string>>(word));
    const auto pieces = *rc::gen::container<std::vector<std::string>>(word);
    std::string text;
    for (const std::string& piece : pieces) text += piece;
    const Filtered whole = expected(stops, text);
    const Filtered cut = filter(stops, pieces);
    RC_ASSERT(cut.found == whole.found);
    RC_ASSERT(cut.text == whole.text);
  }));
}

}  // namespace
}  // namespace inkling
