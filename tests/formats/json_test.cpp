// JSON from anybody, and its fields: what is accepted can be read in one way only, and everything else is refused with
// its place.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/strings.h"
#include "formats/json.h"
#include "tests/temporary_folder.h"

namespace inkling {
namespace {

std::string nested(std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

// As Python's json reads them, of which the text then cannot be written as UTF-8.
TEST(JsonText, HalfASurrogatePairIsReadAsAReplacementCharacterAndCounted) {
  const std::vector<std::array<std::string, 2>> cases{{R"(["\ud800"])", "\xef\xbf\xbd"},
                                                      {R"(["\uDFFF!"])", "\xef\xbf\xbd!"},
                                                      {R"(["\ud834\udd1e"])", "\xf0\x9d\x84\x9e"},
                                                      {R"(["\ud834\ud834\udd1e"])", "\xef\xbf\xbd\xf0\x9d\x84\x9e"},
                                                      {R"(["\udd1e\ud834"])", "\xef\xbf\xbd\xef\xbf\xbd"},
                                                      {R"(["\\ud800"])", R"(\ud800)"},
                                                      {R"(["\\\ud800\n"])", "\\\xef\xbf\xbd\n"},
                                                      {R"(["\ud834\n\udd1e"])", "\xef\xbf\xbd\n\xef\xbf\xbd"}};
  const std::vector<std::size_t> counts{1, 1, 0, 1, 2, 0, 1, 2};
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const auto& [text, value] = cases[i];
    EXPECT_EQ(parse_json(text)[0].get<std::string>(), value) << text;
    EXPECT_EQ(count_lone_surrogates(text), counts[i]) << text;
  }
  EXPECT_TRUE(contains(input_error([] { parse_json(R"(\ud800)"); }), "this is not JSON: see byte 1"));
  EXPECT_TRUE(contains(input_error([] { parse_json(R"(["\ud80"])"); }), "this is not JSON"));
}

TEST(JsonText, NestingHasALimitOf64) {
  EXPECT_TRUE(parse_json(nested(64)).is_array());
  EXPECT_TRUE(contains(input_error([] { parse_json(nested(65)); }), "nests deeper than 64 levels"));
  EXPECT_TRUE(contains(input_error([] { parse_json(nested(100'000)); }), "nests deeper"));
  std::string objects;
  for (int level = 0; level < 100'000; ++level) objects += "{\"a\":";
  EXPECT_TRUE(contains(input_error([&] { parse_json(objects); }), "nests deeper"));
}

TEST(JsonText, NothingBehindAZeroByteIsIgnored) {
  EXPECT_TRUE(contains(input_error([] { parse_json(std::string("{}\0{", 4)); }), "not JSON: see byte 3"));
  EXPECT_TRUE(contains(input_error([] { parse_json(std::string("{}\0", 3)); }), "not JSON: see byte 3"));
  EXPECT_TRUE(contains(input_error([] { parse_json("{} {}"); }), "not JSON: see byte 4"));
}

TEST(JsonText, ANameMayStandInTwoObjectsAndNotTwiceInOne) {
  EXPECT_EQ(parse_json(R"([{"a":1},{"a":2},{"b":{"a":3},"a":4}])").size(), 3U);
  for (const char* json : {R"({"a":1,"a":1})", R"({"a":{"b":[{"c":1}],"b":2}})", R"({"a":{},"\u0061":1})"}) {
    EXPECT_TRUE(contains(input_error([&] { parse_json(json); }), "is given twice")) << json;
  }
}

TEST(JsonText, NumbersThatNoDoubleHoldsAreRefused) {
  EXPECT_TRUE(contains(input_error([] { parse_json("[1e999]"); }), "number out of range: see byte 6"));
}

class JsonFieldsOf {
 public:
  explicit JsonFieldsOf(std::string_view text) { write_file(folder_ / "a.json", text); }
  JsonFields read() const { return {folder_ / "a.json", "mend it"}; }

 private:
  TemporaryFolder folder_;
};

TEST(JsonFields, NumbersHaveRanges) {
  const JsonFieldsOf file(R"({"most": 18446744073709551615, "more": 18446744073709551616, "minus": -1, "half": 0.5})");
  const JsonFields fields = file.read();
  constexpr auto any_count = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(fields.count("most", any_count), any_count);
  EXPECT_EQ(fields.whole("minus", -1, 1), -1);
  for (const char* name : {"more", "minus", "half"}) {
    EXPECT_TRUE(contains(input_error([&] { fields.count(name, any_count); }), str(name, " is "))) << name;
  }
  for (const char* name : {"most", "more", "half"}) {
    EXPECT_TRUE(contains(input_error([&] { fields.whole(name, -5, std::numeric_limits<std::int64_t>::max()); }),
                         "must be a whole number from -5"))
        << name;
  }
  EXPECT_TRUE(contains(input_error([&] { fields.whole("minus", 0, 4096); }), "minus is -1, and must be"));
  EXPECT_TRUE(contains(input_error([&] { fields.count("most", 4096); }), "from 0 to 4096; mend it"));
}

TEST(JsonFields, ListsOfObjectsAreReadWithTheirPlaceInMessages) {
  const JsonFieldsOf file(R"({"sources": [{"size": 1}, {"size": -1}], "settings": {"a": "1"}, "mixed": [{}, 1]})");
  const JsonFields fields = file.read();
  const auto sources = fields.sections("sources");
  ASSERT_EQ(sources.size(), 2U);
  EXPECT_EQ(sources[0].count("size", 9), 1U);
  EXPECT_TRUE(contains(input_error([&] { sources[1].count("size", 9); }), "sources[1].size is -1"));
  EXPECT_TRUE(contains(input_error([&] { fields.sections("mixed"); }), "must be a list of objects"));
  EXPECT_EQ(fields.named_texts("settings").at("a"), "1");
  EXPECT_TRUE(contains(input_error([&] { fields.named_texts("sources"); }), "must be an object of texts"));
  EXPECT_TRUE(contains(input_error([&] { fields.refuse_unknown({"sources", "mixed"}); }), "\"settings\""));
}

}  // namespace
}  // namespace inkling
