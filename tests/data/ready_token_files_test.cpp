// Ready token files are used where they are, after every token has been looked at.
#include <gtest/gtest.h>

#include <vector>

#include "data/dataset.h"
#include "tests/temporary_folder.h"
#include "tests/token_shard.h"

namespace inkling {
namespace {

DataConfig shard_settings(const TemporaryFolder& folder, std::vector<std::string> source) {
  DataConfig config;
  config.source = std::move(source);
  config.vocab_size = 10;
  config.dir = (folder / "prepared").string();
  return config;
}

TEST(ReadyTokenFiles, AreUsedInPlaceAndValidationIsToldByItsName) {
  const TemporaryFolder folder;
  write_shard(folder / "x_train_000002.bin", {4, 5});
  write_shard(folder / "x_train_000001.bin", {1, 2, 3});
  write_shard(folder / "x_val_000000.bin", {9, 8, 7});
  const Dataset dataset = prepare_dataset(shard_settings(folder, {(folder / "x_*.bin").string()}), {.block_size = 2});
  EXPECT_EQ(dataset.tokenizer, nullptr);
  EXPECT_EQ(dataset.vocab_size, 10u);
  EXPECT_EQ(dataset.train.shards, (std::vector{folder / "x_train_000001.bin", folder / "x_train_000002.bin"}));
  EXPECT_EQ(dataset.train.tokens, 5u);
  EXPECT_EQ(dataset.validation.tokens, 3u);
  EXPECT_EQ(dataset.validation.bytes, 0u);
  EXPECT_EQ(open_dataset(dataset.folder).hash, dataset.hash);
}

TEST(ReadyTokenFiles, OfAValidationSourceNeedNoName) {
  const TemporaryFolder folder;
  DataConfig config = shard_settings(folder, {write_shard(folder / "interval.bin", {1, 2, 3})});
  config.validation_source = {write_shard(folder / "b.bin", {4, 5})};
  const Dataset dataset = prepare_dataset(config, {});
  EXPECT_EQ(dataset.train.tokens, 3u);
  EXPECT_EQ(dataset.validation.tokens, 2u);
}

TEST(ReadyTokenFiles, ATokenOutsideTheVocabularyIsNamedWithItsPlace) {
  const TemporaryFolder folder;
  const DataConfig config =
      shard_settings(folder, {write_shard(folder / "train.bin", {1, 2, 3, 10}), write_shard(folder / "val.bin", {1})});
  const std::string message = input_error([&] { prepare_dataset(config, {}); });
  EXPECT_TRUE(contains(message, "train.bin: token number 3, at byte 1030, is 10, and the vocabulary has 10 tokens"));
  EXPECT_FALSE(fs::exists(folder / "prepared"));
}

TEST(ReadyTokenFiles, WithoutValidationOrTrainingAreRefused) {
  const TemporaryFolder folder;
  const std::string train = write_shard(folder / "train.bin", {1}), val = write_shard(folder / "val.bin", {1});
  EXPECT_TRUE(contains(input_error([&] { prepare_dataset(shard_settings(folder, {train}), {}); }), "for validation"));
  EXPECT_TRUE(contains(input_error([&] { prepare_dataset(shard_settings(folder, {val}), {}); }), "for training"));
}

TEST(ReadyTokenFiles, AmongTextAreRefused) {
  const TemporaryFolder folder;
  const DataConfig config =
      shard_settings(folder, {write_shard(folder / "train.bin", {1}), folder.write("val.txt", "hello")});
  EXPECT_TRUE(contains(input_error([&] { prepare_dataset(config, {}); }), "val.txt does not go together"));
}

TEST(ReadyTokenFiles, ThatAreCutShortOrSomethingElseAreRefusedByName) {
  const TemporaryFolder folder;
  const std::string val = write_shard(folder / "val.bin", {1, 2});
  const std::string cut = write_shard(folder / "train.bin", {1, 2, 3});
  fs::resize_file(cut, 1027);
  EXPECT_TRUE(contains(input_error([&] { prepare_dataset(shard_settings(folder, {cut, val}), {}); }), "train.bin"));
  const std::string other = folder.write("other.bin", "not tokens at all");
  EXPECT_TRUE(contains(input_error([&] { prepare_dataset(shard_settings(folder, {other, val}), {}); }), "other.bin"));
}

// nanoGPT's file: tokens of 16 bits and nothing else.
std::string write_headerless(const fs::path& path, const std::vector<std::uint16_t>& tokens) {
  write_file(path, std::string_view(reinterpret_cast<const char*>(tokens.data()), 2 * tokens.size()));
  return path.string();
}

TEST(ReadyTokenFiles, ThatArePointersOfGitLfsAreCalledThat) {
  const TemporaryFolder folder;
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 2000000\n";
  for (const bool headerless : {false, true}) {
    DataConfig config =
        shard_settings(folder, {folder.write("train.bin", pointer), write_shard(folder / "val.bin", {1})});
    config.headerless = headerless;
    EXPECT_TRUE(contains(input_error([&] { prepare_dataset(config, {}); }), "train.bin is a pointer of Git LFS"));
  }
}

TEST(ReadyTokenFiles, WithoutAHeaderHoldTheTokensThatTheyWouldHoldWithOne) {
  const TemporaryFolder folder;
  DataConfig plain = shard_settings(folder, {write_headerless(folder / "train.bin", {1, 2, 3, 9})});
  plain.validation_source = {write_headerless(folder / "val.bin", {4, 5})};
  plain.headerless = true;
  const Dataset dataset = prepare_dataset(plain, {.block_size = 1});
  EXPECT_EQ(dataset.train.tokens, 4u);
  EXPECT_EQ(dataset.validation.tokens, 2u);

  // The folder remembers how its shards are read.
  const Dataset again = open_dataset(dataset.folder);
  const TokenSequence sequence(again.train.shards, again.vocab_size, again.train.layout);
  std::vector<Token> tokens(sequence.count());
  sequence.read(0, tokens);
  EXPECT_EQ(tokens, (std::vector<Token>{1, 2, 3, 9}));
  EXPECT_EQ(prepare_dataset(plain, {.verify = true}).hash, dataset.hash);

  DataConfig with_header = shard_settings(
      folder, {write_shard(folder / "x_train.bin", {1, 2, 3, 9}), write_shard(folder / "x_val.bin", {4, 5})});
  with_header.dir = (folder / "other").string();
  EXPECT_EQ(prepare_dataset(with_header, {}).hash, dataset.hash);
}

TEST(ReadyTokenFiles, AreReadAgainWhenOnlyTheirLayoutChanges) {
  const TemporaryFolder folder;
  DataConfig config = shard_settings(
      folder, {write_headerless(folder / "train.bin", {1, 2, 3}), write_headerless(folder / "val.bin", {4, 5})});
  config.headerless = true;
  prepare_dataset(config, {});
  config.headerless = false;
  EXPECT_TRUE(contains(input_error([&] { prepare_dataset(config, {}); }), "data.headerless: true"));
  write_shard(folder / "train.bin", {1});
  write_shard(folder / "val.bin", {1});
  const Dataset with_header = prepare_dataset(config, {});
  EXPECT_EQ(with_header.train.tokens, 1u);
  config.headerless = true;
  EXPECT_TRUE(contains(input_error([&] { prepare_dataset(config, {}); }), "data.headerless: false"));
}

TEST(ReadyTokenFiles, WithoutAHeaderAreComparedWithTheVocabularyToo) {
  const TemporaryFolder folder;
  DataConfig config = shard_settings(
      folder, {write_headerless(folder / "train.bin", {1, 2, 10}), write_headerless(folder / "val.bin", {4, 5})});
  config.headerless = true;
  EXPECT_TRUE(contains(input_error([&] { prepare_dataset(config, {.dry_run = true}); }),
                       "train.bin: token number 2, at byte 4, is 10"));
}

TEST(ReadyTokenFiles, AreReadAgainWhenTheyOrTheVocabularyChange) {
  const TemporaryFolder folder;
  DataConfig config =
      shard_settings(folder, {write_shard(folder / "train.bin", {1, 2, 3}), write_shard(folder / "val.bin", {1})});
  const std::string before = prepare_dataset(config, {}).hash;
  EXPECT_EQ(prepare_dataset(config, {.verify = true}).hash, before);
  config.vocab_size = 3;
  EXPECT_TRUE(contains(input_error([&] { prepare_dataset(config, {}); }), "token number 2, at byte 1028, is 3"));
  config.vocab_size = 10;
  write_shard(folder / "train.bin", {1, 2, 4});
  EXPECT_NE(prepare_dataset(config, {}).hash, before);
}

}  // namespace
}  // namespace inkling
