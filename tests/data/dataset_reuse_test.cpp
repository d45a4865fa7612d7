#include "data/dataset_parts.h"

#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/source_corpus.h"
#include "tests/temporary_folder.h"

namespace inkling {
namespace {

// A prepared text, and what preparing it again does.
class Prepared {
 public:
  Prepared() {
    config_.source = {folder.write("a.txt", "Some text that is long enough.\nAnd a second line of it.\n")};
    config_.dir = (folder / "prepared").string();
    prepare_dataset(config_, {});
    made_ = stamp();
  }

  // What preparing says on stderr; `remade()` tells whether the folder is another one then.
  std::string again(const PrepareOptions& options = {}) {
    testing::internal::CaptureStderr();
    prepare_dataset(config_, options);
    return testing::internal::GetCapturedStderr();
  }
  // The message of the Error input with which preparing it again must end.
  std::string refused() {
    testing::internal::CaptureStderr();
    const std::string message = input_error([&] { prepare_dataset(config_, {}); });
    testing::internal::GetCapturedStderr();
    return message;
  }
  bool remade() const { return stamp() != made_; }

  TemporaryFolder folder;
  DataConfig config_;

 private:
  std::uint64_t stamp() const { return examine_file(folder / "prepared/train-000000.bin").stamp.inode; }
  std::uint64_t made_ = 0;
};

void age(const fs::path& path) { fs::last_write_time(path, fs::last_write_time(path) - std::chrono::hours(1)); }

TEST(Reuse, UnchangedSourcesAreNotPreparedAgain) {
  Prepared data;
  EXPECT_EQ(data.again(), "");
  EXPECT_FALSE(data.remade());
}

TEST(Reuse, AChangedSourceIsPreparedAgainSayingWhy) {
  Prepared data;
  data.folder.write("a.txt", "Some other text that is long enough, too.\n");
  const std::string said = data.again();
  EXPECT_TRUE(contains(said, "a.txt has changed"));
  EXPECT_TRUE(contains(said, "out of date"));
  EXPECT_EQ(data.again(), "");
}

TEST(Reuse, ADataSetIsNotReplacedByOneThatIsRefused) {
  Prepared data;
  const std::string old_text = read_file(data.folder / "a.txt"), old_hash = open_dataset(data.folder / "prepared").hash;
  PrepareOptions options;
  options.check_hash = [&](const std::string& hash) {
    if (hash != old_hash) throw Error::input("another text");
  };
  data.folder.write("a.txt", "Some other text that is long enough, too.\n");
  EXPECT_EQ(input_error([&] { data.again(options); }), "another text");
  testing::internal::GetCapturedStderr();
  EXPECT_FALSE(data.remade());
  data.folder.write("a.txt", old_text);
  EXPECT_EQ(data.again(options), "");
}

TEST(Reuse, WhatCannotBeReadNowIsAnErrorAndNotOutOfDate) {
  Prepared data;
  const fs::path shard = data.folder / "prepared/train-000000.bin";
  const bool root = ::geteuid() == 0;
  ASSERT_EQ(::chmod(shard.c_str(), 0), 0);
  ASSERT_EQ(::seteuid(root ? 65534 : ::geteuid()), 0);  // 65534 is nobody: root may read everything
  const std::optional<Error> error = error_of([&] { prepare_dataset(data.config_, {}); });
  ASSERT_EQ(::seteuid(root ? 0 : ::geteuid()), 0);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::environment);
  EXPECT_TRUE(contains(error->message(), shard.string()));
  EXPECT_FALSE(data.remade());
}

// With another name, what older versions have prepared would not be found, and their runs could not go on.
TEST(Reuse, TheFolderOfGivenSettingsIsTheSameInEveryVersion) {
  DataConfig config;
  config.source = {"data/fables.grammar"};
  config.stories = 60000;
  config.tokenizer = {.kind = TokenizerKind::sentencepiece, .vocab_size = 1280, .model_type = PieceModel::bpe};
  Corpus corpus;
  corpus.kind = SourceKind::grammar;
  EXPECT_EQ(choose_folder(config, deciding_settings(config, corpus)), "data/fables-sentencepiece-91ce04ed");
}

// Older versions read b.json, b.ndjson and B.JSONL as raw text, and x.txt.GZ without decompressing it.
TEST(Reuse, WhatOlderVersionsReadOtherwiseIsPreparedAgainAndOnlyThat) {
  const TemporaryFolder folder;
  DataConfig config;
  config.tokenizer.kind = TokenizerKind::byte;
  const auto is_marked = [&](const std::vector<std::string>& names) {
    config.source.clear();
    for (const std::string& name : names) config.source.push_back(folder.write(name, "{\"text\": \"a story\"}\n"));
    return deciding_settings(config, examine_corpus(config)).contains("reading_version");
  };
  EXPECT_FALSE(is_marked({"a.txt", "a.jsonl", "A.TXT", "a.txt.gz", "a.jsonl.zst", "A.TXT.gz", "a.JSON.jsonl", "a"}));
  for (const char* name : {"b.json", "b.json.gz", "b.ndjson", "b.jsonlines", "B.JSONL", "x.txt.GZ", "x.jsonl.Zst"}) {
    EXPECT_TRUE(is_marked({"a.txt", name})) << name;
  }

  Prepared data;
  data.config_.source = {data.folder.write("a.jsonl", "{\"text\": \"One story of the two.\"}\n"),
                         data.folder.write("b.json", "{\"text\": \"The other one of them.\"}\n")};
  data.again();
  EXPECT_EQ(data.again(), "");
  Manifest older = read_manifest(data.folder / "prepared");
  older.settings.erase("reading_version");
  write_manifest(data.folder / "prepared", older);
  EXPECT_TRUE(contains(data.again(), "reading_version is new"));
}

TEST(Reuse, ATouchedSourceIsRecognisedByItsHashAndRecordedAnew) {
  Prepared data;
  const std::string before = read_file(data.folder / "prepared/dataset.json");
  age(data.folder / "a.txt");
  EXPECT_EQ(data.again(), "");
  EXPECT_FALSE(data.remade());
  EXPECT_NE(read_file(data.folder / "prepared/dataset.json"), before);
}

// Size, time and inode are trusted, and only --verify looks further.
TEST(Reuse, VerifyFindsAChangeThatHidesBehindSizeTimeAndInode) {
  Prepared data;
  const fs::path path = data.folder / "a.txt";
  struct stat status{};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  FILE* file = std::fopen(path.c_str(), "r+");
  std::fputs("None", file);
  std::fclose(file);
  const struct timespec times[2] = {status.st_atim, status.st_mtim};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  EXPECT_EQ(data.again(), "");
  EXPECT_TRUE(contains(data.again({.verify = true}), "a.txt has changed"));
}

// Changes one byte of a file, and its time unless that is to be hidden.
void damage(const fs::path& path, bool hidden) {
  const auto time = fs::last_write_time(path);
  FILE* file = std::fopen(path.c_str(), "r+");
  std::fseek(file, 1030, SEEK_SET);
  const int before = std::fgetc(file);
  std::fseek(file, 1030, SEEK_SET);
  std::fputc(before ^ 1, file);
  std::fclose(file);
  fs::last_write_time(path, hidden ? time : time + std::chrono::hours(1));
}

// What is not as it was written is not removed either: it could belong to the person, who can remove it.
TEST(Reuse, ADamagedTokenFileIsNoticedByItsTimeAndMadeAnewWhenItIsGone) {
  Prepared data;
  damage(data.folder / "prepared/train-000000.bin", false);
  const std::string damaged = read_file(data.folder / "prepared/train-000000.bin");
  EXPECT_TRUE(contains(data.refused(), "train-000000.bin has been changed since it was written"));
  EXPECT_EQ(read_file(data.folder / "prepared/train-000000.bin"), damaged);
  fs::remove(data.folder / "prepared/train-000000.bin");
  EXPECT_TRUE(contains(data.again(), "preparing it again"));
  EXPECT_EQ(data.again(), "");
}

TEST(Reuse, VerifyFindsADamagedTokenFileThatHidesBehindSizeTimeAndInode) {
  Prepared data;
  damage(data.folder / "prepared/validation-000000.bin", true);
  EXPECT_EQ(data.again(), "");
  EXPECT_TRUE(contains(data.again({.verify = true}), "validation-000000.bin has been changed"));
}

TEST(Reuse, AShardCutShortIsNoticedAtOnce) {
  Prepared data;
  const fs::path shard = data.folder / "prepared/train-000000.bin";
  const auto time = fs::last_write_time(shard);
  fs::resize_file(shard, 1026);
  fs::last_write_time(shard, time);
  EXPECT_TRUE(contains(data.refused(), "train-000000.bin holds 1026 bytes"));
}

// A copy has other times and inodes. Its hashes are computed once, and not again after that.
TEST(Reuse, ACopiedFolderIsRecognisedByItsHashesAndRecordedAnew) {
  Prepared data;
  fs::rename(data.folder / "prepared", data.folder / "original");
  fs::copy(data.folder / "original", data.folder / "prepared", fs::copy_options::recursive);
  const std::string before = read_file(data.folder / "prepared/dataset.json");
  EXPECT_EQ(data.again(), "");
  const std::string after = read_file(data.folder / "prepared/dataset.json");
  EXPECT_NE(after, before);
  damage(data.folder / "prepared/train-000000.bin", true);
  EXPECT_EQ(data.again(), "") << "a recorded time and inode are believed";
  EXPECT_EQ(read_file(data.folder / "prepared/dataset.json"), after);
}

TEST(Reuse, AMissingOrForeignTokenizerIsNoticedAtOnce) {
  Prepared data;
  fs::remove(data.folder / "prepared/inkling_tokenizer.json");
  EXPECT_TRUE(contains(data.again(), "tokenizer"));
  EXPECT_EQ(data.again(), "");
}

TEST(Reuse, AChangedSettingIsNamedWithBothValues) {
  Prepared data;
  data.config_.tokenizer.kind = TokenizerKind::byte;
  EXPECT_TRUE(contains(data.again(), "data.tokenizer.kind was char and is now byte"));
}

TEST(Reuse, AnotherFileInAFolderIsNamed) {
  Prepared data;
  data.folder.write("book/a.txt", "first text\n");
  data.config_.source = {(data.folder / "book").string()};
  data.again();
  data.folder.write("book/b.txt", "second text\n");
  EXPECT_TRUE(contains(data.again(), "b.txt is new"));
  fs::remove(data.folder / "book/b.txt");
  EXPECT_TRUE(contains(data.again(), "b.txt is gone"));
}

// Nor is anything removed then, because nothing says any longer what was written there.
TEST(Reuse, AFolderWithoutItsDatasetJsonIsNotBelieved) {
  Prepared data;
  fs::remove(data.folder / "prepared/dataset.json");
  EXPECT_TRUE(contains(data.refused(), "nothing says that inkling-prepare wrote inkling_tokenizer.json"));
  EXPECT_FALSE(data.remade());
  fs::remove_all(data.folder / "prepared");
  EXPECT_TRUE(contains(data.again(), "preparing"));
}

TEST(Reuse, ADamagedDatasetJsonIsNotBelieved) {
  Prepared data;
  const std::string json = read_file(data.folder / "prepared/dataset.json");
  const auto with = [&](const std::string& name, const std::string& value) {  // in place of a number or text
    const std::size_t begin = json.find(": ", json.find('"' + name + '"')) + 2;
    return json.substr(0, begin) + value + json.substr(json.find_first_of(",\n", begin));
  };
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  for (const std::string& damaged :
       {json.substr(0, json.size() / 2), std::string("{\"format\": \"inkling-dataset\"}"), with("version", deep),
        with("ends_at", deep), with("vocab_size", "18446744073709551615"), with("tokens", "18446744073709551615"),
        with("version", "18446744073709551617"), with("size", "-1"), json + std::string("\0x", 2)}) {
    data.folder.write("prepared/dataset.json", damaged);
    EXPECT_TRUE(contains(data.refused(), "dataset.json: "));
    EXPECT_FALSE(data.remade());
  }
}

TEST(Reuse, ADryRunSaysWhatItWouldDoAndLeavesTheOldData) {
  Prepared data;
  data.folder.write("a.txt", "Some other text that is long enough, too.\n");
  EXPECT_TRUE(contains(data.again({.dry_run = true}), "would prepare it again"));
  EXPECT_FALSE(data.remade());
}

TEST(Reuse, ADryRunRecordsNothing) {
  Prepared data;
  const std::string before = read_file(data.folder / "prepared/dataset.json");
  age(data.folder / "a.txt");
  EXPECT_EQ(data.again({.dry_run = true}), "");
  EXPECT_EQ(read_file(data.folder / "prepared/dataset.json"), before);
}

TEST(Reuse, WhatAnInterruptedRunLeftIsRemovedAndNeverBelieved) {
  Prepared data;
  data.folder.write(".prepared.tmp-999999-0/train-000000.bin", "half a shard");
  data.folder.write("a.txt", "Some other text that is long enough, too.\n");
  data.again();
  EXPECT_FALSE(fs::exists(data.folder / ".prepared.tmp-999999-0"));
  EXPECT_FALSE(fs::exists(data.folder / ".prepared.lock"));
}

TEST(FolderLock, ASecondProcessWaitsForTheFirst) {
  const TemporaryFolder folder;
  const fs::path target = folder / "prepared";
  int pipe_ends[2];
  ASSERT_EQ(::pipe(pipe_ends), 0);
  auto lock = std::make_unique<FolderLock>(target);
  ASSERT_TRUE(lock->held());
  const pid_t child = ::fork();
  if (child == 0) {
    const FolderLock second(target);
    const char done = fs::exists(target) ? 'y' : 'n';  // the first has finished its work
    std::_Exit(::write(pipe_ends[1], &done, 1) == 1 ? 0 : 1);
  }
  ::usleep(100'000);
  fs::create_directory(target);
  lock.reset();
  char answer = 0;
  ASSERT_EQ(::read(pipe_ends[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  ::waitpid(child, nullptr, 0);
}

TEST(PrepareDataset, ManyProcessesAtOnceMakeOneGoodDataset) {
  const TemporaryFolder folder;
  DataConfig config;
  config.source = {folder.write("a.txt", std::string(200000, 'x') + std::string(200000, 'y') + "\n")};
  config.dir = (folder / "prepared").string();
  std::vector<pid_t> children;
  for (int i = 0; i < 6; ++i) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    try {
      prepare_dataset(config, {});
      std::_Exit(0);
    } catch (const std::exception&) {
      std::_Exit(1);
    }
  }
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  EXPECT_EQ(open_dataset(folder / "prepared").train.tokens, 360000u);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 2);
}

}  // namespace
}  // namespace inkling
