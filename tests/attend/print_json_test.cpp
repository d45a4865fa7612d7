// The JSON of inkling-attend: one line, every number as it was, whatever the text holds.
#include "attend/attended_text.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace inkling {
namespace {

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

}  // namespace
}  // namespace inkling
