// When inkling-prepare replaces a data set, it removes what it wrote, and nothing that belongs to a person.
#include "data/dataset_parts.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/strings.h"
#include "config/config.h"
#include "data/dataset.h"
#include "tests/system_calls.h"
#include "tests/temporary_folder.h"
#include "tests/token_shard.h"

namespace inkling {
namespace {

using Json = nlohmann::ordered_json;

class DataFolder : public testing::Test {
 protected:
  DataFolder() {
    config_.source = {folder_.write("a.txt", text_)};
    config_.dir = prepared_.string();
  }

  void prepare(const PrepareOptions& options = {}) { prepare_dataset(config_, options); }
  void change_source() { folder_.write("a.txt", text_ + "Changed.\n"); }

  // All that is below the folder, with contents.
  std::map<std::string, std::string> contents() const {
    std::map<std::string, std::string> files;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder_.path())) {
      const std::string name = entry.path().lexically_relative(folder_.path());
      files[name] = entry.is_regular_file() ? read_file(entry.path()) : "";
    }
    return files;
  }

  // Preparing is refused with these words, and every file stays as it was.
  void expect_refused(std::string_view words, const PrepareOptions& options = {}) {
    const auto before = contents();
    const std::string message = input_error([&] { prepare(options); });
    EXPECT_TRUE(contains(message, words));
    EXPECT_TRUE(contains(message, "name another folder"));
    EXPECT_EQ(contents(), before);
  }

  void edit_manifest(const std::function<void(Json&)>& edit) {
    Json json = Json::parse(read_file(prepared_ / "dataset.json"));
    edit(json);
    write_file(prepared_ / "dataset.json", json.dump(2) + "\n");
  }

  std::vector<std::string> names_beside() const {
    std::vector<std::string> names;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder_.path())) {
      const std::string name = entry.path().filename().string();
      if (name != "a.txt" && name != "prepared") names.push_back(name);
    }
    return names;
  }

  TemporaryFolder folder_;
  const fs::path prepared_ = folder_ / "prepared";
  const std::string text_ = "Some text that is long enough.\nAnd a second line of it.\n";
  DataConfig config_;
};

TEST_F(DataFolder, WithReadyTokenFilesInItIsRefusedAndTheyStay) {
  fs::create_directories(prepared_);
  config_.source = {write_shard(prepared_ / "train-000000.bin", {1, 2, 3})};
  config_.validation_source = {write_shard(prepared_ / "validation-000000.bin", {1, 2, 3})};
  config_.vocab_size = 10;
  expect_refused("prepared holds train-000000.bin, a source of");
  expect_refused("prepared holds train-000000.bin, a source of", {.dry_run = true});
}

TEST_F(DataFolder, WithFilesThatOnlyHaveTheNamesOfOursIsRefused) {
  for (const char* name : {"train-000000.bin", "validation-notes.bin", "tokenizer.model", "validation-bound.json"}) {
    folder_.write(str("prepared/", name), "years of work");
    expect_refused(str("nothing says that inkling-prepare wrote ", name));
    fs::remove_all(prepared_);
  }
  fs::create_directories(prepared_ / "train-old.bin");
  expect_refused("nothing says that inkling-prepare wrote train-old.bin");
  fs::remove_all(prepared_);
  folder_.write("mine.json", "{\"format\": \"inkling-dataset\"}");
  fs::create_directories(prepared_);
  fs::create_symlink(folder_ / "mine.json", prepared_ / "dataset.json");
  expect_refused("nothing says that inkling-prepare wrote dataset.json");
}

TEST_F(DataFolder, IsReplacedWhereItHoldsWhatWasWrittenAndNothingElse) {
  prepare();
  const std::string before = open_dataset(prepared_).hash;
  change_source();
  prepare();
  EXPECT_NE(open_dataset(prepared_).hash, before);
  EXPECT_TRUE(names_beside().empty());
}

TEST_F(DataFolder, WithAFileBesideTheDataSetIsNotReplaced) {
  prepare();
  change_source();
  folder_.write("prepared/train-mine.bin", "mine");
  expect_refused("train-mine.bin");
}

TEST_F(DataFolder, WithAWrittenFileThatWasChangedOrLinkedIsNotReplaced) {
  prepare();
  change_source();
  const fs::path shard = prepared_ / "train-000000.bin";
  fs::rename(shard, folder_ / "elsewhere.bin");
  fs::create_symlink(folder_ / "elsewhere.bin", shard);
  expect_refused("train-000000.bin");
  std::string other = read_file(folder_ / "elsewhere.bin");
  other.back() ^= 1;
  fs::remove(shard);
  write_file(shard, other);
  expect_refused("train-000000.bin has been changed since it was written");
  write_file(shard, "mine");
  expect_refused("train-000000.bin holds 4 bytes");
}

// The data set's own token files as the source of the next one.
TEST_F(DataFolder, WhoseTokenFilesAreTheNewSourceIsNotReplaced) {
  prepare();
  config_ = {};
  config_.dir = prepared_.string();
  config_.vocab_size = 100;
  config_.source = {(prepared_ / "train-000000.bin").string()};
  fs::create_hard_link(prepared_ / "validation-000000.bin", folder_ / "linked.bin");
  config_.validation_source = {(folder_ / "linked.bin").string()};
  expect_refused("holds train-000000.bin, a source");
  fs::copy(prepared_ / "train-000000.bin", folder_ / "copied.bin");
  config_.source = {(folder_ / "copied.bin").string()};
  expect_refused("holds validation-000000.bin, a source");
}

TEST_F(DataFolder, OfAListThatNamesWhatItCannotHaveWrittenIsNotReplaced) {
  for (const std::string& name :
       {(folder_ / "a.txt").string(), std::string("../a.txt"), std::string("inner/file"), std::string(".."),
        std::string("."), std::string(), std::string("dataset.json"), std::string("train-000000.bin\0", 17)}) {
    fs::remove_all(prepared_);
    prepare();
    edit_manifest([&](Json& json) {
      json["written"].push_back(json["written"][0]);
      json["written"].back()["name"] = name;
    });
    expect_refused("as written, which is not a name that a file of the folder can have");
  }
  fs::remove_all(prepared_);
  prepare();
  edit_manifest([](Json& json) { json["written"] = Json::array(); });
  expect_refused("it does not list train-000000.bin as written");
}

TEST_F(DataFolder, WhoseVocabularyIsNotThatOfItsTokenizerIsNotOpened) {
  prepare();
  Manifest manifest = read_manifest(prepared_);
  ++manifest.vocab_size;
  write_manifest(prepared_, manifest);
  EXPECT_TRUE(contains(input_error([&] { open_dataset(prepared_); }), "dataset.json says"));
}

TEST_F(DataFolder, OfANewerVersionIsNotReplaced) {
  prepare();
  edit_manifest([](Json& json) { json["version"] = 3; });
  expect_refused("it is of version 3");
}

TEST_F(DataFolder, ThatGetsAFileWhileTheDataSetIsMadeIsNotReplaced) {
  prepare();
  change_source();
  PrepareOptions options;
  options.check_hash = [&](const std::string&) { folder_.write("prepared/notes.txt", "mine"); };
  EXPECT_TRUE(contains(input_error([&] { prepare(options); }), "notes.txt"));
  EXPECT_EQ(read_file(prepared_ / "notes.txt"), "mine");
  EXPECT_TRUE(names_beside().empty());
}

TEST_F(DataFolder, ThatIsFilledWhileTheDataSetIsMadeIsNotReplaced) {
  for (const bool exists : {false, true}) {
    if (exists) fs::create_directory(prepared_);
    const SystemCalls watched([&](std::string_view call, const std::string& path) {
      const bool last_moment = call == "rmdir" || (call == "rename" && path == prepared_);
      if (last_moment && !fs::exists(prepared_ / "notes.txt")) folder_.write("prepared/notes.txt", "mine");
      return 0;
    });
    EXPECT_TRUE(error_of([&] { prepare(); }));
    EXPECT_EQ(read_file(prepared_ / "notes.txt"), "mine");
    EXPECT_TRUE(names_beside().empty());
    fs::remove_all(prepared_);
  }
}

// At the very moment of the exchange it can no longer be refused, but it is not lost, now or later.
TEST_F(DataFolder, ThatGetsAFileWhileItIsReplacedKeepsItUnderAnotherName) {
  prepare();
  change_source();
  std::string said;
  {
    const SystemCalls watched([&](std::string_view call, const std::string&) {
      if (call == "renameat2" && !fs::exists(prepared_ / "notes.txt")) folder_.write("prepared/notes.txt", "mine");
      return 0;
    });
    testing::internal::CaptureStderr();
    prepare();
    said = testing::internal::GetCapturedStderr();
  }
  EXPECT_TRUE(contains(said, "nothing says that inkling-prepare wrote notes.txt"));
  ASSERT_EQ(names_beside().size(), 1u);
  const fs::path left = folder_ / names_beside().front();
  EXPECT_TRUE(contains(said, left.filename().string()));
  fs::last_write_time(left, fs::file_time_type::clock::now() - std::chrono::hours(1));
  folder_.write("a.txt", "Another text, and long enough as well.\n");
  prepare();
  EXPECT_EQ(read_file(left / "notes.txt"), "mine");
  EXPECT_TRUE(fs::exists(left / "dataset.json"));
}

TEST_F(DataFolder, ThatIsALinkStaysOne) {
  fs::create_directory(folder_ / "large disk");
  fs::create_directory_symlink(folder_ / "large disk", prepared_);
  prepare();
  change_source();
  prepare();
  EXPECT_TRUE(fs::is_symlink(prepared_));
  EXPECT_TRUE(fs::exists(folder_ / "large disk/dataset.json"));
  EXPECT_EQ(names_beside(), std::vector<std::string>{"large disk"});
}

class Version1 : public DataFolder {
 protected:
  // In those days tokenizer.json was the name of inkling's own file, and there was none for Hugging Face.
  void make_version_1() {
    fs::remove(prepared_ / "tokenizer_config.json");
    fs::rename(prepared_ / "inkling_tokenizer.json", prepared_ / "tokenizer.json");
    edit_manifest([](Json& json) {
      json["version"] = 1;
      json.erase("written");
    });
  }
};

TEST_F(Version1, IsOpenedAndItsFilesAreRecorded) {
  prepare();
  Json expected = Json::parse(read_file(prepared_ / "dataset.json")), written = Json::array();
  for (Json file : expected["written"]) {
    if (file["name"] == "tokenizer.json" || file["name"] == "tokenizer_config.json") continue;
    if (file["name"] == "inkling_tokenizer.json") file["name"] = "tokenizer.json";
    written.push_back(file);
  }
  expected["written"] = written;
  make_version_1();
  prepare();
  EXPECT_EQ(read_file(prepared_ / "dataset.json"), expected.dump(2) + "\n");
}

TEST_F(Version1, IsReplacedWhereTheHashesSayThatItIsOurs) {
  for (const TokenizerKind kind : {TokenizerKind::character, TokenizerKind::byte, TokenizerKind::sentencepiece}) {
    fs::remove_all(prepared_);
    std::string text;
    for (int line = 0; line < 100; ++line)
      text += "Line " + std::to_string(line) + " of a little text, naïve as it is.\n";
    folder_.write("a.txt", text);
    config_.tokenizer.kind = kind;
    config_.tokenizer.vocab_size = 290;
    prepare();
    make_version_1();
    folder_.write("a.txt", text + text);
    prepare();
    EXPECT_TRUE(names_beside().empty()) << word_of(kind);
    EXPECT_TRUE(contains(read_file(prepared_ / "dataset.json"), "\"written\"")) << word_of(kind);
  }
}

TEST_F(Version1, OfAGrammarIsReplacedTogetherWithItsBound) {
  config_.source = {
      folder_.write("a.grammar", "story:\n  * fox went {way}.\n  * hen went {way}.\n\nway:\n  * home\n  * on\n")};
  config_.stories = 50;
  prepare();
  make_version_1();
  config_.grammar_seed = 2;
  prepare();
  EXPECT_EQ(names_beside(), std::vector<std::string>{"a.grammar"});
}

TEST_F(Version1, IsNotReplacedWhereTheyDoNot) {
  prepare();
  make_version_1();
  change_source();
  std::string shard = read_file(prepared_ / "train-000000.bin");
  shard.back() ^= 1;
  write_file(prepared_ / "train-000000.bin", shard);
  expect_refused("the token files are");
}

TEST_F(Version1, WithAListOfWrittenFilesIsRefused) {
  prepare();
  edit_manifest([](Json& json) { json["version"] = 1; });
  expect_refused("version 1, which has no list of written files");
}

// A kill at any moment leaves the older data set or the new one, and the next run finds it and tidies up.
TEST_F(DataFolder, KilledAtAnyMomentHoldsOneWholeDataSet) {
  for (int (*fails)(std::string_view) :
       {+[](std::string_view) { return 0; }, +[](std::string_view call) { return call == "renameat2" ? EINVAL : 0; }}) {
    const auto start = [&] {
      fs::remove_all(prepared_);
      folder_.write("a.txt", text_);
      prepare();
      change_source();
    };
    start();
    const std::string old_hash = open_dataset(prepared_).hash;
    prepare();
    const std::string new_hash = open_dataset(prepared_).hash;
    const auto check = [&](int step) {
      const std::string hash = open_dataset(prepared_).hash;
      EXPECT_TRUE(hash == old_hash || hash == new_hash) << "killed in front of call " << step;
      prepare();
      EXPECT_EQ(open_dataset(prepared_).hash, new_hash) << "killed in front of call " << step;
      folder_.write("a.txt", "Another text, and long enough as well.\n");
      prepare();
      EXPECT_TRUE(names_beside().empty()) << "killed in front of call " << step;
    };
    testing::internal::CaptureStderr();
    EXPECT_GT(kill_at_every_step(start, [&] { prepare(); }, check, fails), 15);
    testing::internal::GetCapturedStderr();
  }
}

TEST_F(DataFolder, OnAFileSystemWithoutLocksIsPreparedAfterSayingSo) {
  for (const int code : {ENOLCK, EOPNOTSUPP}) {
    fs::remove_all(prepared_);
    const SystemCalls watched([&](std::string_view call, const std::string& path) {
      return call == "flock" && path.ends_with(".lock") ? code : 0;
    });
    testing::internal::CaptureStderr();
    prepare();
    const std::string said = testing::internal::GetCapturedStderr();
    const std::size_t place = said.find("has no locks");
    EXPECT_NE(place, std::string::npos) << said;
    EXPECT_EQ(said.find("has no locks", place + 1), std::string::npos) << said;
    EXPECT_TRUE(fs::exists(prepared_ / "dataset.json"));
  }
}

TEST_F(DataFolder, ThatCannotBeLockedForAnotherReasonIsAnErrorThatNamesIt) {
  const SystemCalls watched([&](std::string_view call, const std::string& path) {
    return call == "flock" && path.ends_with(".lock") ? EIO : 0;
  });
  const auto error = error_of([&] { prepare(); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::environment);
  EXPECT_TRUE(contains(error->message(), "Input/output error"));
}

}  // namespace
}  // namespace inkling
