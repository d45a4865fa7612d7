#include "data/source.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <vector>

#include "tests/temporary_folder.h"

namespace inkling {
namespace {

std::vector<std::string> names(const std::vector<Source>& sources) {
  std::vector<std::string> result;
  for (const Source& source : sources) {
    for (const SourceFile& file : source.files) result.push_back(file.path.filename().string());
  }
  return result;
}

TEST(ListSources, AFolderIsItsVisibleFilesBelowSortedByPath) {
  const TemporaryFolder folder;
  folder.write("book/b.txt", "b");
  folder.write("book/a/z.txt", "z");
  folder.write("book/c.jsonl", "{}");
  folder.write("book/.hidden", "no");
  folder.write("book/.git/config", "no");
  folder.write("book/empty.txt", "");
  EXPECT_EQ(names(list_sources({(folder / "book").string()}, "data.source")),
            (std::vector<std::string>{"z.txt", "b.txt", "c.jsonl"}));
}

TEST(ListSources, PreparedDataBelowAFolderIsNoSource) {
  const TemporaryFolder folder;
  folder.write("data/play.txt", "to be");
  folder.write("data/play-char-01234567/dataset.json", "{\n  \"format\": \"inkling-dataset\"\n}");
  folder.write("data/play-char-01234567/train-000000.bin", "tokens");
  EXPECT_EQ(names(list_sources({(folder / "data").string()}, "data.source")), std::vector<std::string>{"play.txt"});
}

TEST(ListSources, APatternIsAllItMatches) {
  const TemporaryFolder folder;
  for (const char* name : {"t_2.bin", "t_1.bin", "v_1.bin"}) folder.write(name, "x");
  EXPECT_EQ(names(list_sources({(folder / "t_*.bin").string()}, "data.source")),
            (std::vector<std::string>{"t_1.bin", "t_2.bin"}));
  EXPECT_TRUE(contains(input_error([&] { list_sources({(folder / "u_*.bin").string()}, "data.source"); }), "u_*.bin"));
}

TEST(ListSources, KindsAreToldByTheirNames) {
  const TemporaryFolder folder;
  const std::vector<std::string> entries{folder.write("a.txt", "x"), folder.write("a.jsonl", "x"),
                                         folder.write("a.grammar", "x"), folder.write("a.bin", "x")};
  std::vector<FileKind> kinds;
  for (const Source& source : list_sources(entries, "data.source")) kinds.push_back(source.files[0].kind);
  EXPECT_EQ(kinds, (std::vector{FileKind::text, FileKind::jsonl, FileKind::grammar, FileKind::tokens}));
}

TEST(ListSources, AMissingFileNamesTheNearestOne) {
  const TemporaryFolder folder;
  const std::string there = folder.write("letters.txt", "x");
  const std::string message =
      input_error([&] { list_sources({(folder / "leters.txt").string()}, "data.validation_source"); });
  EXPECT_TRUE(contains(message, "data.validation_source"));
  EXPECT_TRUE(contains(message, "leters.txt does not exist"));
  EXPECT_TRUE(contains(message, "did you mean " + there));
}

TEST(ListSources, MissingShakespeareNamesTheScriptThatFetchesIt) {
  EXPECT_TRUE(contains(input_error([] { list_sources({"nowhere/shakespeare.txt"}, "data.source"); }),
                       "scripts/fetch-shakespeare"));
}

TEST(ListSources, AnEmptyFileIsRefusedWithItsFirstLine) {
  const TemporaryFolder folder;
  const std::string empty = folder.write("empty.txt", "");
  EXPECT_TRUE(contains(input_error([&] { list_sources({empty}, "data.source"); }), empty + ":1: the file is empty"));
}

TEST(ListSources, AFolderWithoutTextIsRefused) {
  const TemporaryFolder folder;
  folder.write("book/.hidden", "x");
  EXPECT_TRUE(
      contains(input_error([&] { list_sources({(folder / "book").string()}, "data.source"); }), "holds no text"));
}

TEST(ListSources, APipeIsRefusedBecauseItIsReadTwice) {
  const TemporaryFolder folder;
  const std::string pipe = (folder / "pipe").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_TRUE(contains(input_error([&] { list_sources({pipe}, "data.source"); }), "is not a regular file"));
}

TEST(ListSources, ALoopOfLinkedFoldersEnds) {
  const TemporaryFolder folder;
  folder.write("book/a.txt", "x");
  fs::create_directory_symlink(folder / "book", folder.path() / "book" / "again");
  EXPECT_EQ(names(list_sources({(folder / "book").string()}, "data.source")), std::vector<std::string>{"a.txt"});
}

}  // namespace
}  // namespace inkling
