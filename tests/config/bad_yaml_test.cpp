// Files that are no config at all: not YAML, too much YAML, or no file. The whole message is read.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "config/config.h"
#include "tests/config/config_testing.h"

namespace inkling {
namespace {

std::string repeated(const std::string& text, std::size_t bytes) {
  std::string result;
  while (result.size() < bytes) result += text;
  return result;
}

TEST(Yaml, WithASecondDocumentIsRefused) {
  const std::string what =
      ": a second YAML document begins here; write one document a file (no further \"---\" or \"...\")";
  EXPECT_EQ(message_of("data: {source: a}\n---\nmodel: {n_layer: 2}\n"), "run.yaml:2:1" + what);
  EXPECT_EQ(message_of("data: {source: a}\n---\n"), "run.yaml:2:1" + what);
  EXPECT_EQ(message_of("data: {source: a}\n...\nmodel: {}\n"), "run.yaml:3:1" + what);
  EXPECT_EQ(message_of("{data: {source: a}} b"), "run.yaml:1:21" + what);
}

TEST(Yaml, WithAnchorsOrAliasesIsRefused) {
  const std::string what = ": anchors (&name) and aliases (*name) are not used here; write the value out";
  EXPECT_EQ(message_of("data:\n  source: &a my.txt\n"), "run.yaml:2:11" + what);
  EXPECT_EQ(message_of("data:\n  source: *a\n"), "run.yaml:2:11" + what);
  EXPECT_EQ(message_of("data: &d\n  source: a\n"), "run.yaml:1:7" + what);
  EXPECT_EQ(message_of("data:\n  source: [&a x, *a]\n"), "run.yaml:2:12" + what);
  EXPECT_EQ(message_of("&a data:\n  source: b\n"), "run.yaml:1:1" + what);
}

TEST(Yaml, WithTagsOrDirectivesIsRefused) {
  const std::string what =
      ": tags (!name) are not used here; write the value alone, or text that begins with ! in quotes";
  EXPECT_EQ(message_of("model:\n  n_layer: !!int 4\n"), "run.yaml:2:12" + what);
  EXPECT_EQ(message_of("data:\n  source: ! a\n"), "run.yaml:2:11" + what);
  EXPECT_EQ(message_of("data: !!map {source: a}\n"), "run.yaml:1:7" + what);
  EXPECT_EQ(message_of("%YAML 1.2\n---\ndata: {source: a}\n"),
            "run.yaml:1:1: YAML directives (%) are not used here; remove the line");
}

TEST(Yaml, ThatIsNestedDeeplyIsRefused) {
  EXPECT_EQ(message_of("data: [[[[[[[[[[a]]]]]]]]]]\n"),
            "run.yaml:1:14: lists and sections are nested more than 8 deep here; write section, setting and value");
}

TEST(Yaml, WithACompositeOrMissingKeyIsRefused) {
  EXPECT_EQ(message_of("? [a, b]\n: 1\n"), "run.yaml:1:3: a list or a section cannot be a key; write \"key: value\"");
  EXPECT_EQ(message_of(": 1\n"), "run.yaml:1:1: a key is missing before \":\"; write \"key: value\"");
}

TEST(Yaml, WithATabInTheIndentationIsRefused) {
  EXPECT_EQ(message_of("model:\n\tn_layer: 4\n"), "run.yaml:2:1: a tab in the indentation; indent with spaces");
  EXPECT_EQ(message_of("model:\n  \tn_layer: 4\n"), "run.yaml:2:3: a tab in the indentation; indent with spaces");
}

TEST(Yaml, WithTabsElsewhereIsRead) {
  EXPECT_EQ(message_of("data:\t{source: a}\t# a comment\n\t\n\t# another\nmodel:\n  n_layer:\t4\n"), "accepted");
}

TEST(Yaml, ThatIsNotTextIsRefused) {
  EXPECT_EQ(message_of("# caf\xc3\xa9 \xff\n"), "run.yaml:1:8: this is not UTF-8 text; save the file as UTF-8");
  EXPECT_EQ(message_of("\xff\xfe"
                       "d\0a\0"),
            "run.yaml:1:1: this is not UTF-8 text; save the file as UTF-8");
  EXPECT_EQ(message_of(std::string("data: a\0b", 9)),
            "run.yaml:1:8: the control character \"\\x00\" stands here; remove it");
  EXPECT_EQ(message_of("data: {source: a}\n\x04model: {}\n"),
            "run.yaml:2:1: the control character \"\\x04\" stands here; remove it");
  EXPECT_EQ(message_of("data: {source: a}\rmodel: {}\n"),
            "run.yaml:1:18: the control character \"\\r\" stands here; remove it");
}

TEST(Yaml, WithAByteOrderMarkOrWindowsLineEndsIsRead) {
  EXPECT_EQ(message_of("\xef\xbb\xbf"
                       "data:\r\n  source: a\r\n"),
            "accepted");
  EXPECT_EQ(message_of("data:\r\n  source: a\r\nmodel:\r\n  n_layer: x\r\n").substr(0, 13), "run.yaml:4:12");
}

TEST(Yaml, ColumnsCountCharacters) {
  EXPECT_EQ(message_of("data: {source: \"caf\xc3\xa9\", order: sorted}\n").substr(0, 14), "run.yaml:1:31:");
}

TEST(Yaml, WithAValueOverSeveralLinesIsRefused) {
  const std::string open = ": the quotes that open here do not close on this line; close them";
  EXPECT_EQ(message_of("data:\n  source: \"a\nmodel:\n"), "run.yaml:2:11" + open);
  EXPECT_EQ(message_of("data:\n  source: 'a\n"), "run.yaml:2:11" + open);
  EXPECT_EQ(message_of("data:\n  source: \"a\\\n   b\"\n"), "run.yaml:2:11" + open);
  EXPECT_EQ(message_of("data:\n  source: a\n    b\n"),
            "run.yaml:2:11: this value goes on in the next line; write it on one line, or indent the next line as its "
            "own key");
  EXPECT_EQ(message_of("data:\n  source: |\n    b\n"),
            "run.yaml:2:11: a text over several lines (| or >) is not used here; write it on one line, in quotes if "
            "need be");
}

TEST(Yaml, ThatDoesNotParseSaysWhatToWrite) {
  const std::string alignment =
      ": this does not line up with the keys above, or follows a value that has ended; indent the settings of a "
      "section by the same number of spaces";
  EXPECT_EQ(message_of("model:\n   n_layer: 4\n  n_head: 4\n"), "run.yaml:3:3" + alignment);
  EXPECT_EQ(message_of("data:\n  source: \"a\" b\n"), "run.yaml:2:15" + alignment);
  EXPECT_EQ(message_of("data:\n  source: a: b\n"),
            "run.yaml:2:12: this \":\" belongs to no key; write one \"key: value\" a line, line keys up below each "
            "other, and put text that contains \": \" in quotes");
  EXPECT_EQ(message_of("data:\n  source: [a, b\n"),
            "run.yaml:2:11: the [ here is not closed, or a comma is missing; write [a, b]");
  EXPECT_EQ(message_of("data: {source: a\n"),
            "run.yaml:1:7: the { here is not closed, or a comma is missing; write {key: value, …}");
  EXPECT_EQ(message_of("data:\n  source: @a\n"),
            "run.yaml:2:11: a value cannot begin with this character; put the value in quotes");
  EXPECT_EQ(message_of("data:\n  source: \"C:\\qt\"\n"),
            "run.yaml:2:16: no such escape; write \\\\ for a backslash in double quotes, or use single quotes");
}

TEST(Yaml, ThatIsEmptyIsRefused) {
  const std::string what = "run.yaml: the file is empty; write at least \"data:\" and below it \"  source: my.txt\"";
  EXPECT_EQ(message_of(""), what);
  EXPECT_EQ(message_of("# nothing yet\n\n"), what);
}

TEST(Yaml, WithAnEmptySectionHasItsDefaults) {
  EXPECT_EQ(message_of("data: {source: a}\nmodel:\n#  n_layer: 4\nlogging: {interval: 5}\n"), "accepted");
}

TEST(Yaml, ThatIsABombIsRefusedQuickly) {
  const std::clock_t start = std::clock();  // processor time: other work on the machine does not count
  EXPECT_EQ(message_of(repeated("a", 300'000)),
            "run.yaml: the file has more than 256.0 KiB; give the YAML file, not the text to train on");
  EXPECT_EQ(message_of("data:\n  source: [" + repeated("a,", 40'000) + "]\n"),
            "run.yaml:2:20002: more than 10000 values; a config is smaller (name a folder instead of its files)");
  std::string laughs = "a: &a [x, x, x, x, x, x, x, x]\n";
  for (char name = 'b'; name < 'k'; ++name) {
    const std::string before(1, static_cast<char>(name - 1));
    laughs += std::string(1, name) + ": &" + name + " [" + repeated("*" + before + ", ", 32) + "]\n";
  }
  EXPECT_EQ(message_of(laughs),
            "run.yaml:1:4: anchors (&name) and aliases (*name) are not used here; write the value out");
  for (const std::string bomb :
       {"[",    "{",  "- ", "? ", "{a: ",  "[[",  "\"",   "'",        "\n", "a:\n", "&a ", "*a ",   "!a ",
        "a: [", "[a", "{a", "%",  "---\n", "|\n", "'a' ", "\xc3\xa9", "[]", ",",    ":",   "a: b\n"}) {
    EXPECT_NE(message_of(repeated(bomb, 250'000)), "accepted") << bomb;
  }
  EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 20);
}

class ConfigFile : public testing::Test {
 protected:
  void SetUp() override {
    static int count = 0;
    folder_ = std::filesystem::path(testing::TempDir()) /
              ("config_file_" + std::to_string(getpid()) + "_" + std::to_string(count++));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  void write(const std::string& name, const std::string& text) const { std::ofstream(folder_ / name) << text; }
  std::string message_of_file(const std::string& file) const {
    try {
      load_config(file, {});
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::input);
      return error.message();
    }
    return "accepted";
  }

  std::filesystem::path folder_;
};

TEST_F(ConfigFile, ThatIsTheTextToTrainOnIsToldWhereTextBelongs) {
  write("mine.txt", "Once there was a fox.\n");
  write("mine.yml", "Once there was a fox.\n");
  const std::string advice =
      ". CONFIG is a YAML file; text to train on is named in one, at data.source, or given with --minutes";
  EXPECT_TRUE(message_of_file(path("mine.txt")).ends_with(advice)) << message_of_file(path("mine.txt"));
  EXPECT_FALSE(message_of_file(path("mine.yml")).ends_with(advice));
}

TEST_F(ConfigFile, ThatIsMissingIsRefusedWithTheNearestOne) {
  EXPECT_EQ(message_of_file(path("fable.yaml")),
            path("fable.yaml") + ": there is no such file; give the path of a YAML file, such as configs/fables.yaml");
  write("fables.yaml", "");
  EXPECT_EQ(message_of_file(path("fable.yaml")),
            path("fable.yaml") + ": there is no such file; did you mean " + path("fables.yaml") + "?");
  EXPECT_EQ(message_of_file(path("no/such/folder.yaml")),
            path("no/such/folder.yaml") +
                ": there is no such file; give the path of a YAML file, such as configs/fables.yaml");
}

TEST_F(ConfigFile, ThatIsAFolderIsRefused) {
  EXPECT_EQ(message_of_file(folder_.string()), folder_.string() + ": this is a folder; give the YAML file");
  write("config.yaml", "");
  EXPECT_EQ(message_of_file(folder_.string()),
            folder_.string() + ": this is a folder; give the YAML file, here " + path("config.yaml"));
}

TEST_F(ConfigFile, MayBeAPipe) {
  ASSERT_EQ(::mkfifo(path("run.yaml").c_str(), 0600), 0);
  std::thread writer([&] { write("run.yaml", "data: {source: a.txt}\nmodel: {n_layer: 3}\n"); });
  EXPECT_EQ(load_config(path("run.yaml"), {}).model.n_layer, 3);
  writer.join();
}

TEST_F(ConfigFile, ThatARunKeptIsNoPipe) {
  write("config.yaml", "data: {source: a.txt}\nmodel: {n_layer: 3}\n");
  EXPECT_EQ(load_kept_config(path("config.yaml"), {}).model.n_layer, 3);
  ASSERT_EQ(::mkfifo(path("pipe.yaml").c_str(), 0600), 0);
  EXPECT_THROW(load_kept_config(path("pipe.yaml"), {}), Error);
}

TEST_F(ConfigFile, ThatIsADeviceIsRefused) {
  EXPECT_TRUE(message_of_file("/dev/zero").starts_with("cannot read /dev/zero: it is a device"));
}

TEST_F(ConfigFile, ThatIsEmptyOrHugeIsRefused) {
  write("empty.yaml", "");
  EXPECT_EQ(message_of_file(path("empty.yaml")),
            path("empty.yaml") + ": the file is empty; write at least \"data:\" and below it \"  source: my.txt\"");
  write("corpus.txt", repeated("To be, or not to be\n", 300'000));
  EXPECT_EQ(message_of_file(path("corpus.txt")),
            path("corpus.txt") +
                ": the file has more than 256.0 KiB; give the YAML file, not the text to train on. "
                "CONFIG is a YAML file; text to train on is named in one, at data.source, or given with --minutes");
}

TEST_F(ConfigFile, IsReadWithItsPathInMessages) {
  write("run.yaml", "data: {source: a}\nmodel: {n_layer: 0}\n");
  EXPECT_EQ(message_of_file(path("run.yaml")),
            path("run.yaml") + ":2:18: model.n_layer is 0; write a whole number from 1 to 1000");
}

}  // namespace
}  // namespace inkling
