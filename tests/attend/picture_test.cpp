#include "attend/attended_text.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/attend/invented_text.h"

namespace inkling {
namespace {

std::size_t count_of(const std::string& text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(HeadPicture, HasALineForEveryWeightOfAtLeastAHundredth) {
  const AttendedText text =
      invent_attention({"The", " fox", " and", " the", " pig"}, {.layers = 2, .heads = 3}, {1, 2});
  const std::vector<float>& weights = text.layers[1].heads[2].weights;
  const auto lines = std::count_if(weights.begin(), weights.end(), [](float weight) { return weight >= 0.01F; });
  EXPECT_EQ(count_of(head_picture(text, {1, 2}), "<path "), static_cast<std::size_t>(lines));
}

TEST(HeadPicture, DrawsWeightAsOpacityAndWidth) {
  AttendedText text = invent_attention({"a", "b"}, {.layers = 1, .heads = 1}, {});
  text.layers[0].heads[0].weights = {1, 0, 0.25F, 0.75F};
  const std::string picture = head_picture(text, {});
  EXPECT_EQ(count_of(picture, R"(stroke-opacity="1" stroke-width="4")"), 1U);
  EXPECT_EQ(count_of(picture, R"(stroke-opacity="0.25" stroke-width="1.56")"), 1U);
  EXPECT_EQ(count_of(picture, R"(stroke-opacity="0.75" stroke-width="3.19")"), 1U);
  EXPECT_EQ(count_of(picture, ">0.75<"), 1U);  // the largest weight of b, as a number
}

TEST(HeadPicture, ShowsWhatCannotBeSeenAndEscapesWhatXmlMeans) {
  const std::string picture =
      head_picture(invent_attention({"</text><script>", " a&b", "\n", "\xe2\x80\xae", "\x01", ""}, {}, {}), {});
  for (const std::string_view name :
       {"&lt;/text&gt;&lt;script&gt;", "\u00b7a&amp;b", "\u23ce", "U+202E", "U+0001", "(no text)"})
    EXPECT_EQ(count_of(picture, ">" + std::string(name) + "</text>"), 2U) << name;
  EXPECT_EQ(count_of(picture, "<script"), 0U);
  EXPECT_EQ(count_of(picture, "\xe2\x80\xae"), 0U);
}

TEST(HeadPicture, CutsTokensThatWouldMakeItTooWide) {
  const std::string picture = head_picture(invent_attention({std::string(5000, 'x')}, {}, {}), {});
  EXPECT_EQ(count_of(picture, std::string(32, 'x') + "\u2026"), 4U);  // twice drawn, twice described
  EXPECT_EQ(count_of(picture, std::string(33, 'x')), 0U);
}

}  // namespace
}  // namespace inkling
