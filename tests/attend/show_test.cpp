// How attention is shown: as a page, as a picture and as JSON, whatever the text holds; and a head as people name it.
#include "attend/attended_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/attend/invented_text.h"
#include "tests/temporary_folder.h"

namespace inkling {
namespace {

std::size_t count_of(const std::string& text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

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
    EXPECT_EQ(count_of(page, mark), count_of(harmless, mark)) << mark;
  EXPECT_EQ(numbers_in(page)["prompt"], text.prompt);
  for (const std::string_view separator : {"\xe2\x80\xa8", "\xe2\x80\xa9"}) EXPECT_EQ(count_of(page, separator), 0);
}

TEST(AttentionPage, RunsOnlyScriptsWithANameThatDependsOnThePrompt) {
  const std::string one = attention_page(invent_attention(story, {}, {}), {});
  const std::string other = attention_page(invent_attention(hostile, {}, {}), {});
  const std::string name = between(one, "script-src 'nonce-", "'");
  EXPECT_EQ(name.size(), 32U);
  EXPECT_NE(name, between(other, "script-src 'nonce-", "'"));
  EXPECT_EQ(count_of(one, name), 4U);  // in the policy twice, at the style and at the script
  EXPECT_EQ(one, attention_page(invent_attention(story, {}, {}), {}));
}

TEST(AttentionPage, NamesNoAddressBesideTheOneOfSvg) {
  const std::string page = attention_page(invent_attention(story, {}, {}), {});
  EXPECT_EQ(count_of(page, "://"), count_of(page, "http://www.w3.org/2000/svg"));
  for (const std::string_view mark : {" src=", " href=", "@import", "url("})
    EXPECT_EQ(count_of(page, mark), 0U) << mark;
}

TEST(AttentionPage, BearsWeightsThatAreNoNumbersAndNamesThatAreNoUtf8) {
  AttendedText text = invent_attention({"a", "b"}, {.layers = 1, .heads = 1}, {});
  text.model = "runs/\xff";
  text.layers[0].heads[0].weights = {std::numeric_limits<float>::quiet_NaN(), 0, -1, 2};
  const nlohmann::json numbers = numbers_in(attention_page(text, {}));
  EXPECT_EQ(from_base64(numbers["layers"][0]["heads"][0]["weights"]), (std::vector<unsigned char>{0, 0, 255}));
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

constexpr float hidden = -std::numeric_limits<float>::infinity();

// Two tokens, one layer of two heads of three channels; only head 0.1 is in full.
AttendedText invented() {
  AttendedText text{.model = "runs/a \"b\"",
                    .prompt = "a\n\"\\\xff</script>",
                    .n_embd = 6,
                    .n_kv_head = 1,
                    .head_size = 3,
                    .position = "rope",
                    .tokens = {{65, "a\n"}, {66, "\\xff"}},
                    .layers = {{"local 8", {{}, {}}}},
                    .next = {{{7, " x"}, 0.1}, {{8, "\u2028"}, 1e-9}}};
  text.layers[0].heads[0].weights = {1, 0, 0.1F, 0.9F};
  text.layers[0].heads[1] = {.weights = {1, 0, 0, 1},
                             .scores = {16777217.0F, hidden, hidden, 1e-30F},
                             .queries = {1, 2, 3, 4, 5, 6},
                             .keys = {-1, 0.5F, 1.0F / 3.0F, 0, 0, 0},
                             .values = {1e-45F, 3.4028235e38F, 7, 8, 9, 10},
                             .sums = {1, 1, 1, 2, 2, 2}};
  return text;
}

nlohmann::json printed(const std::optional<HeadChoice>& only) {
  std::ostringstream out;
  print_json(out, invented(), only);
  const std::string line = out.str();
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  return nlohmann::json::parse(line);
}

using Rows = std::vector<std::vector<float>>;

TEST(AttentionJson, HasTheWeightsOfAllHeadsInRowsThatEndWithTheirOwnToken) {
  const nlohmann::json json = printed({});
  EXPECT_EQ(json.at("model"), "runs/a \"b\"");
  EXPECT_EQ(json.at("prompt"), "a\n\"\\\xef\xbf\xbd</script>");
  EXPECT_EQ(json.at("n_embd"), 6);
  EXPECT_EQ(json.at("n_kv_head"), 1);
  EXPECT_EQ(json.at("head_size"), 3);
  EXPECT_EQ(json.at("position"), "rope");
  EXPECT_EQ(json.at("tokens"), nlohmann::json::parse(R"([{"id": 65, "text": "a\n"}, {"id": 66, "text": "\\xff"}])"));
  EXPECT_EQ(json.at("next")[0], nlohmann::json::parse(R"({"id": 7, "text": " x", "probability": 0.1})"));
  EXPECT_EQ(json.at("next")[1].at("probability"), 1e-9);
  ASSERT_EQ(json.at("layers").size(), 1u);
  EXPECT_EQ(json.at("layers")[0].at("pattern"), "local 8");
  EXPECT_EQ(json.at("layers")[0].at("heads").size(), 2u);
  EXPECT_EQ(json.at("layers")[0].at("heads")[0].size(), 1u);
  EXPECT_EQ(json.at("layers")[0].at("heads")[0].at("weights").get<Rows>(), (Rows{{1}, {0.1F, 0.9F}}));
  EXPECT_EQ(json.at("layers")[0].at("heads")[1].at("weights").get<Rows>(), (Rows{{1}, {0, 1}}));
  EXPECT_FALSE(json.contains("head"));
}

TEST(AttentionJson, HasEverythingOfOneHead) {
  const nlohmann::json json = printed(HeadChoice{0, 1});
  EXPECT_FALSE(json.contains("layers"));
  const nlohmann::json& head = json.at("head");
  EXPECT_EQ(head.at("layer"), 0);
  EXPECT_EQ(head.at("head"), 1);
  EXPECT_EQ(head.at("pattern"), "local 8");
  EXPECT_EQ(head.at("weights").get<Rows>(), (Rows{{1}, {0, 1}}));
  EXPECT_EQ(head.at("queries").get<Rows>(), (Rows{{1, 2, 3}, {4, 5, 6}}));
  EXPECT_EQ(head.at("sums").get<Rows>(), (Rows{{1, 1, 1}, {2, 2, 2}}));
  EXPECT_EQ(head.at("scores")[1][0], nullptr);  // a window hides it
  EXPECT_EQ(head.at("scores")[0].size(), 1u);
}

TEST(AttentionJson, NumbersReadBackAsTheSameFloats) {
  const nlohmann::json head = printed(HeadChoice{0, 1}).at("head");
  const AttendedHead expected = invented().layers[0].heads[1];
  EXPECT_EQ(head.at("scores")[0][0].get<float>(), expected.scores[0]);
  EXPECT_EQ(head.at("scores")[1][1].get<float>(), expected.scores[3]);
  EXPECT_EQ(head.at("keys").get<Rows>()[0], (std::vector<float>(expected.keys.begin(), expected.keys.begin() + 3)));
  EXPECT_EQ(head.at("values").get<Rows>()[0],
            (std::vector<float>(expected.values.begin(), expected.values.begin() + 3)));
  std::ostringstream out;
  print_json(out, invented(), {});
  EXPECT_NE(out.str().find("[[1],[0.1,0.9]]"), std::string::npos) << out.str();  // and are the shortest that do
}

std::string refusal(const std::string& text) {
  return input_error([&] { read_head(text, 2, 8); });
}

TEST(HeadChoice, IsALayerAndAHeadCountedFromZero) {
  EXPECT_EQ(read_head("0.0", 1, 1), (HeadChoice{0, 0}));
  EXPECT_EQ(read_head("1.7", 2, 8), (HeadChoice{1, 7}));
  EXPECT_EQ(read_head("11.10", 12, 12), (HeadChoice{11, 10}));
  EXPECT_EQ(head_text({11, 10}), "11.10");
}

TEST(HeadChoice, WhatIsNoHeadIsRefusedWithTheHeadsThereAre) {
  for (const char* text :
       {"", ".", "1", "1.", ".1", "-1.0", "0.-1", "+1.0", "1 .0", "1,2", "1.2.0", "L1.H2", "0x1.0"}) {
    EXPECT_NE(refusal(text).find(
                  "is no head of the model, which is written as a layer and a head, both counted from 0: 0.0 to 1.7"),
              std::string::npos)
        << refusal(text);
  }
  for (const char* text : {"2.0", "0.8", "99999999999999999.0"}) {
    EXPECT_NE(refusal(text).find("the model, which has 2 layers of 8 heads, both counted from 0: 0.0 to 1.7"),
              std::string::npos)
        << refusal(text);
  }
}

}  // namespace
}  // namespace inkling
