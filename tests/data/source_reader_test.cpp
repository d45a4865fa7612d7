#include "data/source_reader.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/strings.h"
#include "data/source_corpus.h"
#include "tests/compressed.h"
#include "tests/temporary_folder.h"
#include "text/text_cuts.h"

namespace inkling {
namespace {

// What a reader says, put back together.
struct Heard {
  std::string train, validation;
  std::vector<std::string> documents, validation_documents;
  std::vector<std::string> parts, begins, ends;  // begins: "LINE"; ends: "train FILE:LINE"
  std::uint64_t advanced = 0;
  std::string hash;
};

Heard hear(const std::vector<PlannedFile>& plan, const std::string& field = "text", const std::string& mark = {}) {
  Heard heard;
  std::string document;
  TextVisitor visitor;
  visitor.separator = mark;
  visitor.part_length = next_lines_length;
  visitor.part = [&](const PartOfText& part) {
    (part.split == Split::train ? heard.train : heard.validation) += part.text;
    heard.parts.emplace_back(part.text);
    document += part.text;
    heard.begins.push_back(std::to_string(part.place.line));
  };
  visitor.end_document = [&](Split split, const Place& place) {
    (split == Split::train ? heard.documents : heard.validation_documents).push_back(std::exchange(document, {}));
    heard.ends.push_back((split == Split::train ? "train " : "validation ") + place.path->filename().string() + ":" +
                         std::to_string(place.line));
  };
  visitor.advance = [&](std::uint64_t bytes) { heard.advanced += bytes; };
  for (const PlannedFile& planned : plan) heard.hash = visit_file(planned, field, visitor);
  return heard;
}

Heard hear_tail(const std::string& path, double val_fraction) {
  return hear(plan_tail(list_sources({path}, {"data.source"}), val_fraction));
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
    EXPECT_EQ(hear(plan_whole(list_sources({path}, {"data.source"}), Split::train)).advanced, bytes.size());
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
  const Heard heard = hear(plan_whole(list_sources({folder.write("a.txt", text)}, {"data.source"}), Split::train));
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

const std::string end_mark = "<|endoftext|>";

// The documents of a text, found in memory.
std::vector<std::string> documents_of(std::string_view text) {
  std::vector<std::string> documents;
  while (!text.empty()) {
    const std::string_view document = text.substr(0, text.find(end_mark));
    if (document.find_first_not_of(" \t\r\n") != std::string_view::npos) documents.emplace_back(document);
    text.remove_prefix(std::min(text.size(), document.size() + end_mark.size()));
  }
  return documents;
}

std::string joined(const std::vector<std::string>& documents) { return join(documents, "|"); }

TEST(Separator, EndsDocumentsAndIsNoTextWhereverItStands) {
  const TemporaryFolder folder;
  const std::string text =
      "one" + end_mark + "\ntwo\n" + end_mark + end_mark + "\n" + end_mark + "three <|end\n" + end_mark + "\n";
  const std::string lines = nlohmann::json{{"text", text}}.dump() + "\n" + nlohmann::json{{"text", end_mark}}.dump() +
                            "\n" + nlohmann::json{{"text", "four"}}.dump();
  for (const std::string& path : {folder.write("a.txt", text), folder.write("a.txt.gz", gzip_of(text)),
                                  folder.write("a.txt.zst", zstd_of(text))}) {
    const Heard heard = hear(plan_whole(list_sources({path}, {"data.source"}), Split::train), "text", end_mark);
    EXPECT_EQ(joined(heard.documents), "one|\ntwo\n|three <|end\n") << path;
    const std::string name = fs::path(path).filename().string();
    EXPECT_EQ(joined(heard.ends), str("train ", name, ":1|train ", name, ":2|train ", name, ":4")) << path;
  }
  for (const std::string& path : {folder.write("a.jsonl", lines), folder.write("a.jsonl.gz", gzip_of(lines))}) {
    const Heard heard = hear(plan_whole(list_sources({path}, {"data.source"}), Split::train), "text", end_mark);
    EXPECT_EQ(joined(heard.documents), "one|\ntwo\n|three <|end\n|four") << path;
  }
}

// A file is read by chunks of 1 MiB.
TEST(Separator, IsFoundAcrossTheChunksThatAFileIsReadIn) {
  const TemporaryFolder folder;
  for (std::size_t shift = 0; shift <= end_mark.size(); ++shift) {
    const std::string before((std::size_t{1} << 20) - shift, 'x');
    const std::string path = folder.write("a.txt", before + end_mark + "two\n");
    const Heard heard = hear(plan_whole(list_sources({path}, {"data.source"}), Split::train), "text", end_mark);
    EXPECT_TRUE(heard.documents == (std::vector<std::string>{before, "two\n"})) << shift;
  }
}

// A part of a text has at most 256 KiB, and a file is read by chunks of 1 MiB.
TEST(Separator, WhiteSpaceBetweenTwoIsNoDocumentHoweverItIsReadUpToABound) {
  const TemporaryFolder folder;
  std::string blank;
  while (blank.size() < (std::size_t{3} << 20)) blank += std::string(999, ' ') + "\n";
  const std::string text = "one" + end_mark + blank + end_mark + blank + "two" + end_mark + blank;
  for (const std::string& path : {folder.write("a.txt", text), folder.write("a.txt.gz", gzip_of(text))}) {
    const Heard heard = hear(plan_whole(list_sources({path}, {"data.source"}), Split::train), "text", end_mark);
    EXPECT_TRUE(heard.documents == (std::vector<std::string>{"one", blank + "two"})) << path;
    EXPECT_EQ(heard.ends.back(), str("train ", fs::path(path).filename().string(), ":", 1 + 2 * blank.size() / 1000));
  }
  for (const std::size_t size : {(std::size_t{16} << 20) - 1, std::size_t{16} << 20}) {
    const std::string path = folder.write("b.txt", "one" + end_mark + std::string(size, ' ') + end_mark + "two");
    const Heard heard = hear(plan_whole(list_sources({path}, {"data.source"}), Split::train), "text", end_mark);
    EXPECT_EQ(heard.documents.size(), size < (std::size_t{16} << 20) ? 2u : 3u);
  }
}

TEST(Separator, NoCutBetweenTheSplitsLiesInsideOne) {
  EXPECT_TRUE(rc::check([] {
    const TemporaryFolder folder;
    const std::string text =
        join(*rc::gen::nonEmpty(rc::gen::container<std::vector<std::string>>(rc::gen::element<std::string>(
                 std::string(end_mark), "€", "a\n", "<|endof", "words and more words", " "))),
             "");
    const double val_fraction = *rc::gen::element(0.1, 0.25, 0.5, 0.9);
    const auto parts = [&](const std::string& path) {
      return hear(plan_tail(list_sources({path}, {"data.source"}), val_fraction, end_mark), "text", end_mark);
    };
    const Heard plain = parts(folder.write("a.txt", text));
    const Heard compressed = parts(folder.write("b.txt.gz", gzip_of(text)));
    RC_ASSERT(plain.documents == compressed.documents);
    RC_ASSERT(plain.validation_documents == compressed.validation_documents);
    // Together they are the documents of the text, of which one may be cut.
    std::vector<std::string> whole = plain.documents;
    whole.insert(whole.end(), plain.validation_documents.begin(), plain.validation_documents.end());
    const std::vector<std::string> expected = documents_of(text);
    const auto squeezed = [](const std::vector<std::string>& documents) {
      std::string all;
      for (const char c : join(documents, "")) all += c == ' ' || c == '\n' ? "" : std::string(1, c);
      return all;
    };
    RC_ASSERT(squeezed(whole) == squeezed(expected));
    RC_ASSERT(whole.size() <= expected.size() + 1);
  }));
}

TEST(Separator, TheCutGoesToTheNearestOne) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 100; ++i) text += "story " + std::to_string(100 + i) + end_mark;
  for (const std::string& path : {folder.write("a.txt", text), folder.write("a.txt.gz", gzip_of(text))}) {
    const Heard heard = hear(plan_tail(list_sources({path}, {"data.source"}), 0.125, end_mark), "text", end_mark);
    EXPECT_EQ(heard.documents.size() + heard.validation_documents.size(), 100u) << "none is cut";
    EXPECT_TRUE(heard.documents.size() == 87 || heard.documents.size() == 88) << heard.documents.size();
  }
}

TEST(VisitFile, AByteOrderMarkIsNoText) {
  const TemporaryFolder folder;
  const Heard heard =
      hear(plan_whole(list_sources({folder.write("a.txt", "\xef\xbb\xbfhello")}, {"data.source"}), Split::train));
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
  const std::vector<PlannedFile> plan = plan_whole(list_sources({path}, {"data.source"}), Split::train);
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
  const Heard heard = hear(plan_whole(list_sources({path}, {"data.source"}), Split::train));
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
  visit_file(plan_whole(list_sources({path}, {"data.source"}), Split::train)[0], "text", visitor);
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
  const std::vector<Source> sources = list_sources(
      {folder.write("a", std::string(100, 'a')), folder.write("b", std::string(200, 'b'))}, {"data.source"});
  EXPECT_EQ(hear(plan_tail(sources, 0.1)).validation, std::string(10, 'a') + std::string(20, 'b'));
}

std::string json_error(const std::string& line, const std::string& field = "text") {
  const TemporaryFolder folder;
  const std::string path = folder.write("a.jsonl", "{\"text\":\"fine\"}\n" + line + "\n");
  return input_error([&] { hear(plan_whole(list_sources({path}, {"data.source"}), Split::train), field); });
}

TEST(JsonLines, BadLinesAreRefusedWithFileLineAndRemedy) {
  EXPECT_TRUE(contains(json_error("{\"text\": oops}"), "a.jsonl:2:10: this is not JSON;"));
  EXPECT_TRUE(contains(json_error("{\"text\":\"cut"), "a.jsonl:2:"));
  EXPECT_TRUE(contains(json_error("{\"text\":\"a\"} {\"text\":\"b\"}"), "a.jsonl:2:"));
  EXPECT_TRUE(contains(json_error("{\"text\":\"\xff\"}"), "a.jsonl:2:"));
  EXPECT_TRUE(contains(json_error(std::string("{\"text\":\"a\"}\0b", 14)), "a.jsonl:2:13: this is not JSON;"));
  EXPECT_TRUE(
      contains(json_error("{\"text\":\"a\",\"text\":\"b\"}"), "a.jsonl:2: field \"text\" is given more than once"));
  EXPECT_TRUE(contains(json_error("{\"text\":" + std::string(100'000, '[')), "a.jsonl:2:"));
  EXPECT_TRUE(contains(json_error("{\"n\":1e999}"), "a.jsonl:2:10: this JSON holds a number out of range"));
  EXPECT_TRUE(contains(json_error("[\"text\"]"), "a.jsonl:2: this is not a JSON object"));
  EXPECT_TRUE(contains(json_error("{\"text\":12}"), "a.jsonl:2: field \"text\" is a number"));
  EXPECT_TRUE(contains(json_error("{\"text\":null}"), "field \"text\" is null"));
  EXPECT_TRUE(contains(json_error("{\"body\":\"x\",\"title\":\"y\"}"),
                       "a.jsonl:2: no field \"text\" (there is \"body\", \"title\"): name the field"));
  EXPECT_TRUE(contains(json_error("{}"), "no field \"text\" (there is none)"));
}

struct Told {
  std::string train, validation;
  std::vector<std::string> ends;
  bool operator==(const Told&) const = default;
};

// What is heard of a source called `name` that holds `text`, of the places only the lines.
Told told_of(const std::string& name, const std::string& text, double val_fraction = 0.1) {
  const TemporaryFolder folder;
  const std::string bytes = name.ends_with(".gz") ? gzip_of(text) : name.ends_with(".zst") ? zstd_of(text) : text;
  Heard heard = hear_tail(folder.write(name, bytes), val_fraction);
  for (std::string& one : heard.ends) one.replace(one.find(' '), one.rfind(':') - one.find(' '), "");
  return {heard.train, heard.validation, heard.ends};
}

TEST(JsonFiles, LinesAreReadAsThoseOfAJsonlFileUnderAnyName) {
  EXPECT_TRUE(rc::check([] {
    std::string lines;
    for (const int length : *rc::gen::nonEmpty(rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 60)))) {
      lines +=
          R"({"id":[1,{"a":"]}\""}],"text":"\u00e9)" + std::string(static_cast<std::size_t>(length), 'y') + "é\"}\n";
    }
    const double val_fraction = *rc::gen::element(0.1, 0.3, 0.6);
    const Told expected = told_of("a.jsonl", lines, val_fraction);
    const std::string name =
        *rc::gen::element<std::string>("a.json", "a.ndjson", "a.jsonlines", "a.JSONL", "a.json.gz", "a.json.zst");
    RC_ASSERT(told_of(name, lines, val_fraction) == expected);
  }));
}

TEST(JsonFiles, AListOfObjectsOrOfStringsIsADocumentEach) {
  const std::string text =
      "\xef\xbb\xbf [ {\"title\": \"t\",\n  \"text\": \"one ]},\"},\n \"two \\\"\\ud834\\udd1e\" "
      ",{\"text\":\"three\"}\n]\n ";
  for (const char* name : {"a.json", "a.json.gz", "a.json.zst"}) {
    const TemporaryFolder folder;
    const std::string bytes = std::string(name) == "a.json"      ? text
                              : std::string(name) == "a.json.gz" ? gzip_of(text)
                                                                 : zstd_of(text);
    const Heard heard = hear(plan_whole(list_sources({folder.write(name, bytes)}, {"data.source"}), Split::train));
    EXPECT_EQ(heard.train, "one ]},two \"𝄞three");
    const std::string end = std::string("train ") + name;
    EXPECT_EQ(heard.ends, (std::vector<std::string>{end + ":1", end + ":3", end + ":3"}));
  }
}

TEST(JsonFiles, AListIsCutBetweenItsMembersAndNotBeforeItsFirst) {
  std::string list = "[";
  for (int i = 0; i < 20; ++i)
    list += (i > 0 ? ",\n" : "") + std::string("\"") + std::string(50, static_cast<char>('a' + i)) + "\"";
  const Told told = told_of("a.json", list + "]");
  EXPECT_EQ(told.train.size(), 18u * 50);
  EXPECT_EQ(told.validation, std::string(50, 's') + std::string(50, 't'));
  const Told one = told_of("a.json", "[\"" + std::string(1000, 'x') + "\"]");
  EXPECT_NEAR(static_cast<double>(one.validation.size()), 100, 5);
}

TEST(JsonFiles, AMemberMayLieAcrossWhatIsReadAtOnce) {
  const TemporaryFolder folder;
  std::string list = "[", texts;
  for (int i = 0; list.size() < (10u << 20); ++i) {
    const std::string text(static_cast<std::size_t>(i * 7919 % 100'000), static_cast<char>('a' + i % 26));
    list += (i > 0 ? ", " : "") + std::string("{\"text\": \"") + text + "\"}";
    texts += text;
  }
  const std::string path = folder.write("a.json", list + "]");
  EXPECT_TRUE(hear(plan_whole(list_sources({path}, {"data.source"}), Split::train)).train == texts);
}

std::string json_file_error(const std::string& text) {
  const TemporaryFolder folder;
  const std::string path = folder.write("a.json", text);
  return input_error([&] { hear(plan_whole(list_sources({path}, {"data.source"}), Split::train)); });
}

TEST(JsonFiles, WhatHoldsNoTextsIsRefusedWithLineAndRemedy) {
  EXPECT_TRUE(
      contains(json_file_error("{\n \"version\": 1,\n \"data\": [{\"text\": \"a\"}]}"),
               "a.json:1: no field \"text\" (there is \"version\", \"data\"): name the field that holds the text as "
               "data.jsonl_field; if the texts are in the list \"data\", jq -c '.[\"data\"][]' "));
  EXPECT_TRUE(contains(json_file_error("[\"a\",\n[\"b\"]]"), "a.json:2: this is not a JSON object"));
  EXPECT_TRUE(contains(json_file_error("[\"a\",\n12]"), "a.json:2: this is not a JSON object"));
  EXPECT_TRUE(contains(json_file_error("[\"a\",\n\"b\""), "a.json:2: the list breaks off"));
  EXPECT_TRUE(contains(json_file_error("[\"a\"\n\"b\"]"), "a.json:2: this is not JSON: between members"));
  EXPECT_TRUE(contains(json_file_error("[\"a\",\n,\"b\"]"), "a.json:2: this is not JSON: a value is missing"));
  EXPECT_TRUE(contains(json_file_error("[\"a\",]"), "a.json:1: this is not JSON: a value is missing"));
  EXPECT_TRUE(contains(json_file_error("[\"a\"]\n[\"b\"]"), "a.json:2: this is not JSON: something follows the list"));
  EXPECT_TRUE(contains(json_file_error("{\"text\": \"a\"},\n{\"text\": \"b\"}"), "a.json:1: this is not JSON"));
  EXPECT_TRUE(contains(json_file_error("{\n\"text\":\n oops}"), "a.json:3: this is not JSON;"));
  EXPECT_TRUE(contains(json_file_error("{\"text\": \"a"), "a.json:1: this is not JSON;"));
  const std::string plain = json_file_error("plain text");
  EXPECT_TRUE(contains(plain, "a.json:1: this is not JSON;"));
  EXPECT_TRUE(contains(plain, "name the other files alone; data.raw: true takes every file as it is"));
}

TEST(VisitFile, WhatIsNoTextIsRefusedByItsFirstBytesWhateverItsName) {
  using namespace std::string_literals;
  const std::string tar(257, 'x');
  const std::vector<std::array<std::string, 2>> refused{
      {"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
       "a pointer of Git LFS, not the file itself: git lfs"},
      {"\n<!DOCTYPE html><html>", "an HTML page"},
      {"\xef\xbb\xbf<HTML lang=en>", "an HTML page"},
      {"%PDF-1.7\n", "a PDF"},
      {"PK\x03\x04rest", "an archive of files"},
      {tar + "ustar  ", "an archive of files"},
      {"PAR1\x15\x04", "a table of columns"},
      {"\x89PNG\r\n\x1a\n", "a picture"},
      {gzip_of("text"), "compressed by gzip, and its name does not say so: "},
      {zstd_of("text"), "compressed by zstd, and its name does not say so"},
      {"\xff\xfeh\0i\0"s, "iconv -f UTF-16 -t UTF-8 "},
      {"\xfe\xff\0h\0i"s, "iconv -f UTF-16 -t UTF-8 "},
      {"h\0i\0 \0t\0"s, "iconv -f UTF-16LE -t UTF-8 "},
      {"\0h\0i\0 \0t\0h"s, "iconv -f UTF-16BE -t UTF-8 "},
      {"h\0i\0\xe9\0\x14\x20t\0h\0e\0r\0e\0"s, "iconv -f UTF-16LE -t UTF-8 "},
      {"\xff\xfe\0\0h\0\0\0"s, "iconv -f UTF-32 -t UTF-8 "},
      {"h\0\0\0i\0\0\0"s, "iconv -f UTF-32LE -t UTF-8 "},
      {"\0\0\0h\0\0\0i"s, "iconv -f UTF-32BE -t UTF-8 "}};
  const TemporaryFolder folder;
  for (const auto& [text, part] : refused) {
    for (const char* name : {"a.txt", "a", "a.jsonl", "a.json", "a.txt.gz", "a.TXT.ZST"}) {
      const std::string end = name;
      const std::string bytes = end.ends_with("gz") ? gzip_of(text) : end.ends_with("ZST") ? zstd_of(text) : text;
      const std::string path = folder.write(name, bytes);
      const std::string message =
          input_error([&] { hear(plan_whole(list_sources({path}, {"data.source"}), Split::train)); });
      EXPECT_TRUE(message.starts_with(path + " is ")) << message;
      EXPECT_TRUE(contains(message, part));
      EXPECT_EQ(hear(plan_whole(list_sources({path}, {"data.source", true}), Split::train)).train,
                text.starts_with(byte_order_mark) ? text.substr(3) : text);
    }
  }
}

TEST(VisitFile, RawIsOfferedWhereItWorks) {
  const TemporaryFolder folder;
  const auto error = [&](const std::string& text) {
    const std::string path = folder.write("letters/a.txt", text), parent = fs::path(path).parent_path().string();
    const auto refused = [&](const std::string& entry) {
      return input_error([&] { hear(plan_whole(list_sources({entry}, {"data.source"}), Split::train)); });
    };
    const std::string by_name = refused(path);
    for (const std::string& entry : {parent, parent + "/*"}) {
      EXPECT_EQ(refused(entry),
                by_name + "; then move the original out of the folder, or name the files to read one by one");
    }
    return by_name;
  };
  EXPECT_TRUE(error("<html>").ends_with("writes its text; data.raw: true takes every file as it is"));
  EXPECT_TRUE(error("%PDF-1").ends_with("; with data.tokenizer.kind: byte, data.raw: true takes every file as it is"));
  EXPECT_TRUE(error("\xff\xfeh").ends_with(" converts it"));
}

TEST(VisitFile, WhatOnlyLooksForeignIsText) {
  for (const char* text : {"PAR1 is a gene", "<html5> is no tag", "version https://example.com", "h",
                           "GGUF is a format", "# %PDF-", "The ustar format", "<!-- a comment -->"}) {
    const TemporaryFolder folder;
    const std::string path = folder.write("a.txt", text);
    EXPECT_EQ(hear(plan_whole(list_sources({path}, {"data.source"}), Split::train)).train, text);
  }
}

}  // namespace
}  // namespace inkling
