#include "attend/attended_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "tests/attend/invented_text.h"

namespace inkling {
namespace {

const std::vector<std::string> story = {"The", " fox", " did", " not", " cross", " the", " riv", "er", ".", "\n"};

const std::vector<std::string> hostile = {"</script>",    "<script>alert(1)</script>",
                                          "<!--",         "]]>",
                                          "\"'`&",        "\xe2\x80\xa8",
                                          "\xe2\x80\xa9", "@DATA@",
                                          "@NONCE@",      "\x01\\"};

std::string between(const std::string& text, std::string_view begin, std::string_view end) {
  const std::size_t from = text.find(begin);
  if (from == std::string::npos) return {};
  return text.substr(from + begin.size(), text.find(end, from + begin.size()) - from - begin.size());
}

nlohmann::json numbers_in(const std::string& page) {
  return nlohmann::json::parse(between(page, R"(<script type="application/json" id="data">)", "</script>"));
}

std::size_t times(const std::string& text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

std::vector<unsigned char> from_base64(const std::string& text) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<unsigned char> bytes;
  unsigned bits = 0, kept = 0;
  for (const char digit : text.substr(0, text.find('='))) {
    bits = bits << 6 | static_cast<unsigned>(digits.find(digit));
    if ((kept += 6) >= 8) bytes.push_back(static_cast<unsigned char>(bits >> (kept -= 8)));
  }
  return bytes;
}

std::vector<float> floats_from(const nlohmann::json& base64) {
  const std::vector<unsigned char> bytes = from_base64(base64);
  std::vector<float> numbers(bytes.size() / sizeof(float));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

std::vector<float> lower_triangle(const std::vector<float>& square, std::size_t tokens) {
  std::vector<float> kept;
  for (std::size_t i = 0; i < tokens; ++i)
    for (std::size_t j = 0; j <= i; ++j) kept.push_back(square[i * tokens + j]);
  return kept;
}

TEST(AttentionPage, KeepsTheWeightsOfEveryHeadToTheNearestOf255Steps) {
  const AttendedText text = invent_attention(story, {.layers = 3, .heads = 2}, {1, 1});
  const nlohmann::json numbers = numbers_in(attention_page(text, {1, 1}));
  for (std::size_t layer = 0; layer < 3; ++layer) {
    for (std::size_t head = 0; head < 2; ++head) {
      const auto bytes = from_base64(numbers["layers"][layer]["heads"][head]["weights"]);
      const auto weights = lower_triangle(text.layers[layer].heads[head].weights, story.size());
      ASSERT_EQ(bytes.size(), weights.size());
      for (std::size_t i = 0; i < weights.size(); ++i)
        ASSERT_LE(std::abs(bytes[i] / 255.0 - weights[i]), 0.5 / 255 + 1e-9);
    }
  }
}

TEST(AttentionPage, KeepsEveryNumberOfAHeadInFullBitForBit) {
  const AttendedText text = invent_attention(story, {.layers = 2, .heads = 2, .head_size = 5}, {1, 0});
  const AttendedHead& head = text.layers[1].heads[0];
  const nlohmann::json numbers = numbers_in(attention_page(text, {1, 0}));
  const nlohmann::json& full = numbers["layers"][1]["heads"][0]["full"];
  EXPECT_EQ(floats_from(full["weights"]), lower_triangle(head.weights, story.size()));
  EXPECT_EQ(floats_from(full["scores"]), lower_triangle(head.scores, story.size()));  // with what is out of its window
  EXPECT_EQ(floats_from(full["queries"]), head.queries);
  EXPECT_EQ(floats_from(full["keys"]), head.keys);
  EXPECT_EQ(floats_from(full["values"]), head.values);
  EXPECT_EQ(floats_from(full["sums"]), head.sums);
  EXPECT_FALSE(numbers["layers"][1]["heads"][1].contains("full"));
}

TEST(AttentionPage, SaysWhatItShows) {
  const AttendedText text = invent_attention(story, {.layers = 2, .heads = 3}, {1, 2});
  const nlohmann::json numbers = numbers_in(attention_page(text, {1, 2}));
  EXPECT_EQ(numbers["prompt"], text.prompt);
  EXPECT_EQ(numbers["shown"], (nlohmann::json{{"layer", 1}, {"head", 2}}));
  EXPECT_EQ(numbers["tokens"][1], (nlohmann::json{{"id", text.tokens[1].id}, {"text", " fox"}}));
  EXPECT_EQ(numbers["layers"][1]["pattern"], "local 4");
  EXPECT_EQ(numbers["next"][0]["probability"], text.next[0].probability);
}

TEST(AttentionPage, TakesLessThan3MegabytesFor100TokensOf12LayersAnd12Heads) {
  const std::vector<std::string> tokens(100, " token");
  const AttendedText text = invent_attention(tokens, {.layers = 12, .heads = 12, .head_size = 64}, {5, 5});
  EXPECT_LT(attention_page(text, {5, 5}).size(), 3'000'000);
}

TEST(AttentionPage, LetsNoTokenBecomeMarkup) {
  AttendedText text = invent_attention(hostile, {}, {});
  text.model = "runs/</script><script>alert(1)</script>";
  const std::string page = attention_page(text, {}), harmless = attention_page(invent_attention(story, {}, {}), {});
  for (const std::string_view mark : {"<script", "</script", "<!--"})
    EXPECT_EQ(times(page, mark), times(harmless, mark)) << mark;
  EXPECT_EQ(numbers_in(page)["prompt"], text.prompt);
  for (const std::string_view separator : {"\xe2\x80\xa8", "\xe2\x80\xa9"}) EXPECT_EQ(times(page, separator), 0);
}

TEST(AttentionPage, RunsOnlyScriptsWithANameThatDependsOnThePrompt) {
  const std::string one = attention_page(invent_attention(story, {}, {}), {});
  const std::string other = attention_page(invent_attention(hostile, {}, {}), {});
  const std::string name = between(one, "script-src 'nonce-", "'");
  EXPECT_EQ(name.size(), 32U);
  EXPECT_NE(name, between(other, "script-src 'nonce-", "'"));
  EXPECT_EQ(times(one, name), 4U);  // in the policy twice, at the style and at the script
  EXPECT_EQ(one, attention_page(invent_attention(story, {}, {}), {}));
}

TEST(AttentionPage, NamesNoAddressBesideTheOneOfSvg) {
  const std::string page = attention_page(invent_attention(story, {}, {}), {});
  EXPECT_EQ(times(page, "://"), times(page, "http://www.w3.org/2000/svg"));
  for (const std::string_view mark : {" src=", " href=", "@import", "url("}) EXPECT_EQ(times(page, mark), 0U) << mark;
}

TEST(AttentionPage, BearsWeightsThatAreNoNumbersAndNamesThatAreNoUtf8) {
  AttendedText text = invent_attention({"a", "b"}, {.layers = 1, .heads = 1}, {});
  text.model = "runs/\xff";
  text.layers[0].heads[0].weights = {std::numeric_limits<float>::quiet_NaN(), 0, -1, 2};
  const nlohmann::json numbers = numbers_in(attention_page(text, {}));
  EXPECT_EQ(from_base64(numbers["layers"][0]["heads"][0]["weights"]), (std::vector<unsigned char>{0, 0, 255}));
}

}  // namespace
}  // namespace inkling
