#include "data/source.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <string>
#include <vector>

#include "base/paths.h"
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
  EXPECT_EQ(names(list_sources({(folder / "book").string()}, {"data.source"})),
            (std::vector<std::string>{"z.txt", "b.txt", "c.jsonl"}));
}

TEST(ListSources, PreparedDataBelowAFolderIsNoSource) {
  const TemporaryFolder folder;
  folder.write("data/play.txt", "to be");
  folder.write("data/play-char-01234567/dataset.json", "{\n  \"format\": \"inkling-dataset\"\n}");
  folder.write("data/play-char-01234567/train-000000.bin", "tokens");
  EXPECT_EQ(names(list_sources({(folder / "data").string()}, {"data.source"})), std::vector<std::string>{"play.txt"});
}

TEST(ListSources, APatternIsAllItMatches) {
  const TemporaryFolder folder;
  for (const char* name : {"t_2.bin", "t_1.bin", "v_1.bin"}) folder.write(name, "x");
  EXPECT_EQ(names(list_sources({(folder / "t_*.bin").string()}, {"data.source"})),
            (std::vector<std::string>{"t_1.bin", "t_2.bin"}));
  EXPECT_TRUE(
      contains(input_error([&] { list_sources({(folder / "u_*.bin").string()}, {"data.source"}); }), "u_*.bin"));
}

TEST(ListSources, KindsAreToldByTheirEndingsInAnyCase) {
  const TemporaryFolder folder;
  const auto kinds_of = [&](FileKind kind, const std::vector<std::string>& file_names) {
    for (const std::string& name : file_names) {
      const SourceFile file = list_sources({folder.write(name, "x")}, {"data.source"})[0].files[0];
      EXPECT_EQ(file.kind, kind) << name;
      const std::string end = ending_of(name);
      const Compression compression = end == ".gz"    ? Compression::gzip
                                      : end == ".zst" ? Compression::zstd
                                                      : Compression::none;
      EXPECT_EQ(file.compression, compression) << name;
    }
  };
  kinds_of(FileKind::text,
           {"a.txt", "a.TXT", "a.Txt.Gz", "a", "a.GZ", "a.ZST", "a.py", "a.md", "README", "a.c.zst", "v1.2"});
  kinds_of(FileKind::jsonl, {"a.jsonl", "a.JSONL", "a.ndjson", "a.jsonlines", "a.NDJSON.GZ", "a.Jsonl.Zst"});
  kinds_of(FileKind::json, {"a.json", "a.JSON", "a.json.gz"});
  kinds_of(FileKind::grammar, {"a.grammar", "a.Grammar"});
  kinds_of(FileKind::tokens, {"a.bin", "a.BIN"});
}

TEST(ListSources, WhatIsNoTextIsRefusedByItsEndingWithWhatToDo) {
  const TemporaryFolder folder;
  const std::vector<std::array<std::string, 2>> refused{{"a.csv", "a table: scripts/from-parquet"},
                                                        {"a.TSV", "a table: "},
                                                        {"a.parquet", "scripts/from-parquet"},
                                                        {"a.html", "pandoc -f html"},
                                                        {"A.HTM", "pandoc -f html"},
                                                        {"a.html.gz", "decompress it, and then: pandoc"},
                                                        {"a.xml", "XML"},
                                                        {"a.docx", "pandoc -t plain"},
                                                        {"a.epub", "pandoc -t plain"},
                                                        {"a.PDF", "pdftotext"},
                                                        {"a.xlsx", "--convert-to csv"},
                                                        {"a.zip", "unzip"},
                                                        {"a.tar.gz", "unpack it (tar -xf"},
                                                        {"a.TGZ", "unpack it (tar -xf"},
                                                        {"a.txt.xz", "xz -dk"},
                                                        {"a.txt.bz2", "bzip2 -dk"},
                                                        {"a.7z", "7z x"},
                                                        {"a.rar", "unrar x"},
                                                        {"a.PKL", "is a Python pickle"},
                                                        {"a.sqlite", "sqlite3"},
                                                        {"a.safetensors", "a model's weights"},
                                                        {"a.gguf", "a model's weights"},
                                                        {"a.png", "a picture: leave it out"},
                                                        {"a.mp3", "sound: leave it out"},
                                                        {"a.ipynb", "jupyter nbconvert"},
                                                        {"a b.pdf", "pdftotext '"}};
  for (const auto& [name, part] : refused) {
    const std::string path = folder.write(name, "x");
    const std::string message = input_error([&] { list_sources({path}, {"data.source"}); });
    EXPECT_TRUE(contains(message, path + " is "));
    EXPECT_TRUE(contains(message, part));
    EXPECT_EQ(list_sources({path}, {"data.source", true})[0].files[0].kind, FileKind::raw) << name;
  }
}

// A table or a page may be what the person wants to train on, so that it would be missed; a picture cannot.
TEST(ListSources, AFolderPassesOverPicturesAndHiddenFilesWithACountAndStopsAtWhatHasToBeConverted) {
  const TemporaryFolder folder;
  for (const char* name :
       {"book/a.txt", "book/.DS_Store", "book/._a.txt", "book/.git/config", "book/b.png", "book/c/d.JPG"}) {
    folder.write(name, "x");
  }
  const std::string book = (folder / "book").string();
  testing::internal::CaptureStderr();
  EXPECT_EQ(names(list_sources({book}, {"data.source"})), std::vector<std::string>{"a.txt"});
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(
      contains(said, "data.source: " + book + ": passed over 3 hidden files and folders (" + book + "/.DS_Store, …)"));
  EXPECT_TRUE(contains(said, "passed over 2 files that hold no text (" + book + "/b.png, …)"));
  const std::string pattern = book + "/*";
  testing::internal::CaptureStderr();
  EXPECT_EQ(names(list_sources({pattern}, {"data.source"})), std::vector<std::string>{"a.txt"});
  EXPECT_TRUE(contains(testing::internal::GetCapturedStderr(),
                       "data.source: " + pattern + ": passed over 1 file that holds no text (" + book + "/b.png)"));
  testing::internal::CaptureStderr();
  EXPECT_TRUE(contains(input_error([&] { list_sources({book + "/*.png"}, {"data.source"}); }), "holds no text"));
  testing::internal::GetCapturedStderr();

  folder.write("book/e.csv", "x");
  const std::string one = input_error([&] { list_sources({book}, {"data.source"}); });
  const std::string end = "; then move the original out of the folder, or name the files to read one by one";
  EXPECT_TRUE(one.starts_with(book + "/e.csv is a table: ") && one.ends_with(end)) << one;
  EXPECT_EQ(input_error([&] { list_sources({book + "/*.csv"}, {"data.source"}); }), one);
  folder.write("book/c/f.html", "x");
  const std::string two = input_error([&] { list_sources({book}, {"data.source"}); });
  EXPECT_TRUE(contains(
      two, book + " holds 2 files that are no texts as they stand; the first: " + book + "/c/f.html is an HTML"));
  EXPECT_TRUE(two.ends_with(end)) << two;
}

TEST(ListSources, ALinkThatLeadsNowhereIsCalledThat) {
  const TemporaryFolder folder;
  folder.write("book/a.txt", "x");
  fs::create_symlink("gone.txt", folder / "book/b.txt");
  const std::string link = (folder / "book/b.txt").string(),
                    expected = link + " is a link to gone.txt, which does not exist";
  EXPECT_TRUE(contains(input_error([&] { list_sources({link}, {"data.source"}); }), expected));
  EXPECT_TRUE(contains(input_error([&] { list_sources({(folder / "book").string()}, {"data.source"}); }), expected));
}

TEST(ListSources, AMissingFileNamesTheNearestOne) {
  const TemporaryFolder folder;
  const std::string there = folder.write("letters.txt", "x");
  const std::string message =
      input_error([&] { list_sources({(folder / "leters.txt").string()}, {"data.validation_source"}); });
  EXPECT_TRUE(contains(message, "data.validation_source"));
  EXPECT_TRUE(contains(message, "leters.txt does not exist"));
  EXPECT_TRUE(contains(message, "did you mean " + there));
}

TEST(ListSources, MissingShakespeareNamesTheScriptThatFetchesIt) {
  EXPECT_TRUE(contains(input_error([] { list_sources({"nowhere/shakespeare.txt"}, {"data.source"}); }),
                       "scripts/fetch-shakespeare"));
}

TEST(ListSources, AnEmptyFileIsRefusedWithItsFirstLine) {
  const TemporaryFolder folder;
  const std::string empty = folder.write("empty.txt", "");
  EXPECT_TRUE(contains(input_error([&] { list_sources({empty}, {"data.source"}); }), empty + ":1: the file is empty"));
}

TEST(ListSources, AFolderWithoutTextIsRefused) {
  const TemporaryFolder folder;
  folder.write("book/.hidden", "x");
  EXPECT_TRUE(
      contains(input_error([&] { list_sources({(folder / "book").string()}, {"data.source"}); }), "holds no text"));
}

TEST(ListSources, APipeIsRefusedBecauseItIsReadTwice) {
  const TemporaryFolder folder;
  const std::string pipe = (folder / "pipe").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_TRUE(contains(input_error([&] { list_sources({pipe}, {"data.source"}); }), "is not a regular file"));
}

TEST(ListSources, ALoopOfLinkedFoldersEnds) {
  const TemporaryFolder folder;
  folder.write("book/a.txt", "x");
  fs::create_directory_symlink(folder / "book", folder.path() / "book" / "again");
  EXPECT_EQ(names(list_sources({(folder / "book").string()}, {"data.source"})), std::vector<std::string>{"a.txt"});
}

}  // namespace
}  // namespace inkling
