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
