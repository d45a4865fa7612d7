#include "data/source_reader.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>
#include <vector>

#include "base/hash.h"
#include "base/strings.h"
#include "data/source_plan.h"
#include "tests/compressed.h"
#include "tests/temporary_folder.h"
#include "text/line_cuts.h"

namespace inkling {
namespace {

// What a reader says, put back together.
struct Heard {
  std::string train, validation;
  std::vector<std::string> parts, begins, ends;  // begins: "LINE"; ends: "train FILE:LINE"
  std::uint64_t advanced = 0;
  std::string hash;
};

Heard hear(const std::vector<PlannedFile>& plan, const std::string& field = "text") {
  Heard heard;
  TextVisitor visitor;
  visitor.part_length = next_lines_length;
  visitor.part = [&](const PartOfText& part) {
    (part.split == Split::train ? heard.train : heard.validation) += part.text;
    heard.parts.emplace_back(part.text);
    heard.begins.push_back(std::to_string(part.place.line));
  };
  visitor.end_document = [&](Split split, const Place& place) {
    heard.ends.push_back((split == Split::train ? "train " : "validation ") + place.path->filename().string() + ":" +
                         std::to_string(place.line));
  };
  visitor.advance = [&](std::uint64_t bytes) { heard.advanced += bytes; };
  for (const PlannedFile& planned : plan) heard.hash = visit_file(planned, field, visitor);
  return heard;
}

Heard hear_tail(const std::string& path, double val_fraction) {
  return hear(plan_tail(list_sources({path}, "data.source"), val_fraction));
}

TEST(VisitFile, ASingleTextIsCutLikeNanoGptCutsIt) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 1234; ++i) text += "line " + std::to_string(i) + "\n";
  const Heard heard = hear_tail(folder.write("a.txt", text), 0.1);
  const auto cut = static_cast<std::size_t>(0.9 * static_cast<double>(text.size()));
  EXPECT_EQ(heard.train, text.substr(0, cut));
  EXPECT_EQ(heard.validation, text.substr(cut));
  EXPECT_EQ(heard.ends.size(), 2u);
  EXPECT_EQ(heard.hash, hash_text(text));
  EXPECT_EQ(heard.advanced, text.size());
}

// Opening a compressed file reads its first bytes already, which are all of a small one.
TEST(VisitFile, EveryByteOfAFileIsCountedAsItIsOnTheDisk) {
  const TemporaryFolder folder;
  const std::string small = gzip_of("one\ntwo\n");
  std::string large;
  for (std::uint64_t i = 0; i < 200000; ++i) large += hexadecimal(i * 0x9e3779b97f4a7c15, 16, Letters::lower_case);
  for (const std::string& bytes : {small, gzip_of(large)}) {
    const std::string path = folder.write("a.txt.gz", bytes);
    EXPECT_EQ(hear(plan_whole(list_sources({path}, "data.source"), Split::train)).advanced, bytes.size());
  }
}

TEST(VisitFile, TheCutNeverSplitsACharacter) {
  EXPECT_TRUE(rc::check([] {
    const TemporaryFolder folder;
    std::string text;
    for (const std::string& word : *rc::gen::nonEmpty(rc::gen::container<std::vector<std::string>>(
             rc::gen::element<std::string>("a", "é", "€", "𝄞", "\n", " ")))) {
      text += word;
    }
    const double val_fraction = *rc::gen::element(0.1, 0.25, 0.5, 0.9);
    const Heard heard = hear_tail(folder.write("a.txt", text), val_fraction);
    RC_ASSERT(heard.train + heard.validation == text);
    RC_ASSERT(heard.validation.empty() || (static_cast<unsigned char>(heard.validation[0]) & 0xC0) != 0x80);
  }));
}

TEST(VisitFile, PartsAreThoseOfTheWholeTextHoweverItIsRead) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; text.size() < (3u << 20); ++i) text += std::string(i % 97 + (i % 5000 == 0 ? 70000 : 0), 'x') + "\n";
  const Heard heard = hear(plan_whole(list_sources({folder.write("a.txt", text)}, "data.source"), Split::train));
  std::vector<std::string> expected, lines;
  std::size_t line = 1;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t length = next_lines_length(rest);
    expected.emplace_back(rest.substr(0, length));
    lines.push_back(std::to_string(line));
    line += static_cast<std::size_t>(std::count(expected.back().begin(), expected.back().end(), '\n'));
    rest.remove_prefix(length);
  }
  EXPECT_GT(expected.size(), 3u);
  EXPECT_TRUE(heard.parts == expected) << heard.parts.size() << " parts, expected " << expected.size();
  EXPECT_EQ(heard.begins, lines);
}

TEST(VisitFile, AByteOrderMarkIsNoText) {
  const TemporaryFolder folder;
  const Heard heard =
      hear(plan_whole(list_sources({folder.write("a.txt", "\xef\xbb\xbfhello")}, "data.source"), Split::train));
  EXPECT_EQ(heard.train, "hello");
}

TEST(VisitFile, AnErrorCarriesTheLineItIsIn) {
  const TemporaryFolder folder;
  const std::string path = folder.write("a.txt", "one\ntwo\n" + std::string(100000, 'x') + "\nbad\n");
  const auto check = [](std::string_view text) {
    if (text.find("bad") != std::string_view::npos) throw Error::input("no such thing");
  };
  TextVisitor visitor;
  visitor.part_length = next_lines_length;
  visitor.part = [&](const PartOfText& part) { take_part(part, [&] { check(part.text); }, check); };
  visitor.end_document = [](Split, const Place&) {};
  const std::vector<PlannedFile> plan = plan_whole(list_sources({path}, "data.source"), Split::train);
  EXPECT_EQ(input_error([&] { visit_file(plan[0], "text", visitor); }), path + ":4: no such thing");
}

TEST(VisitFile, EveryJsonLineIsADocument) {
  const TemporaryFolder folder;
  const std::string path =
      folder.write("a.jsonl", R"({"title":"t","text":"one\ntwo","meta":{"text":"no"},"tags":["text","no"]})"
                              "\n\n"
                              R"({"text":"d\u00e9j\u00e0 \ud834\udd1e"})"
                              "\n"
                              R"({"text":""})"
                              "\n"
                              R"({"text":"last"})");
  const Heard heard = hear(plan_whole(list_sources({path}, "data.source"), Split::train));
  EXPECT_EQ(heard.train, "one\ntwodéjà 𝄞last");
  EXPECT_EQ(heard.ends, (std::vector<std::string>{"train a.jsonl:1", "train a.jsonl:3", "train a.jsonl:5"}));
}

TEST(VisitFile, HalfASurrogatePairInAJsonLineBecomesAReplacementCharacterAlsoInAFieldThatIsNotRead) {
  const TemporaryFolder folder;
  const std::string path = folder.write("a.jsonl",
                                        "{\"text\":\"fine\"}\n{\"text\":\"a\\ud83d\"}\n"
                                        "{\"\\udc00\":[\"\\ud800\\ud800\"],\"text\":\"\\ud83d\\ude00\"}\n");
  LoneSurrogates lone;
  std::string heard;
  TextVisitor visitor{.part_length = next_lines_length,
                      .part = [&](const PartOfText& part) { heard += part.text; },
                      .end_document = [](Split, const Place&) {},
                      .advance = {},
                      .lone_surrogates = [&](const Place& place, std::size_t count) { lone.add(place, count); }};
  visit_file(plan_whole(list_sources({path}, "data.source"), Split::train)[0], "text", visitor);
  EXPECT_EQ(heard, "finea\xef\xbf\xbd\xf0\x9f\x98\x80");
  EXPECT_EQ(lone.count, 4u);
  EXPECT_EQ(lone.first, path + ":2");
}

TEST(PlanTail, LinesOfJsonAreNeverCutWhereTheyAreShort) {
  EXPECT_TRUE(rc::check([] {
    const TemporaryFolder folder;
    const auto lengths = *rc::gen::suchThat(rc::gen::container<std::vector<int>>(rc::gen::inRange(1, 50)),
                                            [](const std::vector<int>& candidate) { return candidate.size() > 40; });
    std::string lines;
    for (const int length : lengths)
      lines += R"({"text":")" + std::string(static_cast<std::size_t>(length), 'y') + "\"}\n";
    const Heard heard = hear_tail(folder.write("a.jsonl", lines), 0.2);
    RC_ASSERT(heard.ends.size() == lengths.size());
    const double share = static_cast<double>(heard.validation.size()) /
                         static_cast<double>(heard.validation.size() + heard.train.size());
    RC_ASSERT(share > 0.05);
    RC_ASSERT(share < 0.35);
  }));
}

TEST(PlanTail, ALongLastJsonDocumentIsCutInProportion) {
  const TemporaryFolder folder;
  const std::string path =
      folder.write("a.jsonl", "{\"text\":\"short\"}\n{\"text\":\"" + std::string(10000, 'z') + "\"}\n");
  const Heard heard = hear_tail(path, 0.1);
  EXPECT_EQ(heard.ends.size(), 3u);
  EXPECT_NEAR(static_cast<double>(heard.validation.size()), 1000, 20);
}

TEST(PlanTail, FilesOfAFolderAreDocumentsAndStayWhole) {
  const TemporaryFolder folder;
  for (char name = 'a'; name <= 't'; ++name) folder.write(std::string("book/") + name, std::string(100, name));
  const Heard heard = hear_tail((folder / "book").string(), 0.1);
  EXPECT_EQ(heard.validation, std::string(100, 's') + std::string(100, 't'));
  EXPECT_EQ(heard.ends.size(), 20u);
}

TEST(PlanTail, ALargeLastFileIsCutInside) {
  const TemporaryFolder folder;
  folder.write("book/a", std::string(500, 'a'));
  folder.write("book/b", std::string(500, 'b'));
  EXPECT_EQ(hear_tail((folder / "book").string(), 0.1).validation, std::string(100, 'b'));
}

TEST(PlanTail, EverySourceGivesItsOwnTail) {
  const TemporaryFolder folder;
  const std::vector<Source> sources =
      list_sources({folder.write("a", std::string(100, 'a')), folder.write("b", std::string(200, 'b'))}, "data.source");
  EXPECT_EQ(hear(plan_tail(sources, 0.1)).validation, std::string(10, 'a') + std::string(20, 'b'));
}

std::string json_error(const std::string& line, const std::string& field = "text") {
  const TemporaryFolder folder;
  const std::string path = folder.write("a.jsonl", "{\"text\":\"fine\"}\n" + line + "\n");
  return input_error([&] { hear(plan_whole(list_sources({path}, "data.source"), Split::train), field); });
}

TEST(JsonLines, BadLinesAreRefusedWithFileLineAndRemedy) {
  EXPECT_TRUE(contains(json_error("{\"text\": oops}"), "a.jsonl:2:10: this is not JSON;"));
  EXPECT_TRUE(contains(json_error("{\"text\":\"cut"), "a.jsonl:2:"));
  EXPECT_TRUE(contains(json_error("{\"text\":\"a\"} {\"text\":\"b\"}"), "a.jsonl:2:"));
  EXPECT_TRUE(contains(json_error("{\"text\":\"\xff\"}"), "a.jsonl:2:"));
  EXPECT_TRUE(contains(json_error(std::string("{\"text\":\"a\"}\0b", 14)), "a.jsonl:2:13: this is not JSON;"));
  EXPECT_TRUE(contains(json_error("{\"text\":\"a\",\"text\":\"b\"}"), "a.jsonl:2: field \"text\" is given twice"));
  EXPECT_TRUE(contains(json_error("{\"text\":" + std::string(100'000, '[')), "a.jsonl:2:"));
  EXPECT_TRUE(contains(json_error("{\"n\":1e999}"), "a.jsonl:2:10: this JSON holds a number out of range"));
  EXPECT_TRUE(contains(json_error("[\"text\"]"), "a.jsonl:2: this line is not a JSON object"));
  EXPECT_TRUE(contains(json_error("{\"text\":12}"), "a.jsonl:2: field \"text\" is a number"));
  EXPECT_TRUE(contains(json_error("{\"text\":null}"), "field \"text\" is null"));
  EXPECT_TRUE(contains(json_error("{\"body\":\"x\",\"title\":\"y\"}"),
                       "a.jsonl:2: no field \"text\" (there is \"body\", \"title\"): name the field"));
  EXPECT_TRUE(contains(json_error("{}"), "no field \"text\" (there is none)"));
}

}  // namespace
}  // namespace inkling
