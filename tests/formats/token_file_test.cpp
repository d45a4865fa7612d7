#include "formats/token_file.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "base/random.h"
#include "tests/temporary_folder.h"
#include "tests/token_shard.h"

namespace inkling {
namespace {

std::vector<Token> random_tokens(std::uint64_t seed, std::size_t count, std::uint64_t vocab_size) {
  std::vector<Token> tokens(count);
  const std::uint64_t key = random_key(seed, Purpose::sampling, 0);
  for (std::size_t i = 0; i < count; ++i) tokens[i] = static_cast<Token>(random_below(key, i, vocab_size));
  return tokens;
}

void expect_refused(const fs::path& path, const std::string& why) {
  const auto error = error_of([&] { TokenShard shard(path); });
  ASSERT_TRUE(error) << "accepted; expected: " << why;
  EXPECT_EQ(error->kind(), ErrorKind::input);
  EXPECT_TRUE(error->message().starts_with(path.string() + ": ")) << error->message();
  EXPECT_NE(error->message().find(why), std::string::npos) << error->message();
}

TEST(TokenWidth, IsTheNarrowestThatHoldsEveryId) {
  EXPECT_EQ(token_width_for(1), TokenWidth::u16);
  EXPECT_EQ(token_width_for(65536), TokenWidth::u16);
  EXPECT_EQ(token_width_for(65537), TokenWidth::u32);
}

TEST(TokenShard, IsByteForByteWhatLlmCReads) {
  const TemporaryFolder folder;
  write_shard(folder / "a.bin", {1, 65535, 50256});
  write_shard(folder / "b.bin", {1, 0xfffffffe}, TokenWidth::u32);
  const auto words = [](std::vector<std::int32_t> first, std::string_view tokens) {
    first.resize(256);
    return std::string(reinterpret_cast<const char*>(first.data()), 1024).append(tokens);
  };
  EXPECT_EQ(read_file(folder / "a.bin"), words({20240520, 1, 3}, std::string_view("\x01\x00\xff\xff\x50\xc4", 6)));
  EXPECT_EQ(read_file(folder / "b.bin"), words({20240801, 7, 2}, std::string_view("\x01\0\0\0\xfe\xff\xff\xff", 8)));
}

TEST(TokenShard, WhatIsWrittenIsReadBackFromAnyPlace) {
  const TemporaryFolder folder;
  for (const TokenWidth width : {TokenWidth::u16, TokenWidth::u32}) {
    const std::uint64_t vocab_size = width == TokenWidth::u16 ? 1 << 16 : std::uint64_t{1} << 32;
    const std::vector<Token> tokens = random_tokens(1, 20000, vocab_size);
    TokenShardWriter writer(folder / "a.bin", width);
    for (std::size_t at = 0, step = 0; at < tokens.size(); at += step++) {
      writer.append(std::span(tokens).subspan(at, std::min(step, tokens.size() - at)));
    }
    EXPECT_EQ(writer.count(), tokens.size());
    EXPECT_FALSE(fs::exists(folder / "a.bin") && width == TokenWidth::u16);
    writer.commit();

    const TokenShard shard(folder / "a.bin");
    EXPECT_EQ(shard.width(), width);
    ASSERT_EQ(shard.count(), tokens.size());
    EXPECT_TRUE(rc::check([&] {
      const std::size_t first = *rc::gen::inRange<std::size_t>(0, tokens.size() + 1);
      std::vector<Token> read(*rc::gen::inRange<std::size_t>(0, tokens.size() + 1 - first));
      shard.read(first, read);
      RC_ASSERT(std::equal(read.begin(), read.end(), tokens.begin() + static_cast<std::ptrdiff_t>(first)));
    }));
  }
}

TEST(TokenShard, TokenThatDoesNotFitIsRefusedAndNothingAppears) {
  const TemporaryFolder folder;
  const auto error = error_of([&] { write_shard(folder / "a.bin", {1, 65536, 2}); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::internal);
  EXPECT_NE(error->message().find("65536"), std::string::npos);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(TokenShard, ReadingPastTheEndIsAnInternalError) {
  const TemporaryFolder folder;
  write_shard(folder / "a.bin", {1, 2, 3});
  const TokenShard shard(folder / "a.bin");
  std::vector<Token> two(2);
  EXPECT_NO_THROW(shard.read(1, two));
  for (const std::uint64_t first : {std::uint64_t{2}, std::uint64_t{4}, ~std::uint64_t{0}}) {
    const auto error = error_of([&] { shard.read(first, two); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), ErrorKind::internal);
  }
}

TEST(TokenShard, EveryDamageToTheHeaderIsRefusedWithTheFilesName) {
  const TemporaryFolder folder;
  const fs::path path = folder / "a.bin";
  write_shard(path, {1, 2, 3});
  const std::string whole = read_file(path);
  const auto with_word = [&](std::size_t index, std::int32_t value) {
    std::string bytes = whole;
    std::memcpy(bytes.data() + 4 * index, &value, 4);
    write_file(path, bytes);
  };
  with_word(0, 20240521);
  expect_refused(path, "is not a token file: it begins with the number 20240521");
  with_word(0, 20240801);
  expect_refused(path, "version 1; inkling reads version 7");
  with_word(1, 2);
  expect_refused(path, "version 2; inkling reads version 1");
  with_word(2, -1);
  expect_refused(path, "promises -1 tokens");
  with_word(2, 2);
  expect_refused(path, "something was appended");
  with_word(2, 4);
  expect_refused(path, "cut short");
  with_word(2, 2147483647);
  expect_refused(path, "2,147,483,647 tokens take 4294968318");
}

TEST(TokenShard, EveryCutAndEveryAppendedByteIsRefused) {
  const TemporaryFolder folder;
  const fs::path path = folder / "a.bin";
  for (const TokenWidth width : {TokenWidth::u16, TokenWidth::u32}) {
    write_shard(path, {1, 2, 3}, width);
    const std::string whole = read_file(path);
    for (std::size_t size = 1020; size <= whole.size() + 4; ++size) {
      write_file(path, (whole + "more").substr(0, size));
      if (size != whole.size()) expect_refused(path, size < 1024 ? "header" : "bytes");
    }
    write_file(path, "");
    expect_refused(path, "cut short");
  }
}

TEST(TokenShard, HeaderlessTokensAreRefusedWithTheSettingThatTakesThem) {
  const TemporaryFolder folder;
  const std::string setting = "write data.headerless: true";
  write_file(folder / "train.bin", std::string(4000, '\7'));
  expect_refused(folder / "train.bin", "is not a token file");
  expect_refused(folder / "train.bin", setting);
  write_file(folder / "train.bin", std::string(10, '\7'));  // shorter than a header
  expect_refused(folder / "train.bin", setting);
  for (const std::size_t no_tokens : {0, 9, 4001}) {
    write_file(folder / "train.bin", std::string(no_tokens, '\7'));
    const auto error = error_of([&] { TokenShard shard(folder / "train.bin"); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->message().find(setting), std::string::npos) << error->message();
  }
}

TEST(HeaderlessTokenShard, IsNothingButTokensOf16Bits) {
  const TemporaryFolder folder;
  write_file(folder / "train.bin", std::string_view("\x01\x00\xff\xff\x50\xc4", 6));
  const TokenShard shard(folder / "train.bin", TokenLayout::headerless);
  ASSERT_EQ(shard.count(), 3u);
  EXPECT_EQ(shard.width(), TokenWidth::u16);
  std::vector<Token> tokens(2);
  shard.read(1, tokens);
  EXPECT_EQ(tokens, (std::vector<Token>{65535, 50256}));
  const auto error = error_of([&] { shard.require_below(60000, 1, tokens); });
  ASSERT_TRUE(error);
  EXPECT_NE(error->message().find("train.bin: token number 1, at byte 2, is 65535"), std::string::npos)
      << error->message();
}

TEST(HeaderlessTokenShard, OfNoTokenOrOneIsRead) {
  const TemporaryFolder folder;
  for (const std::size_t count : {0, 1}) {
    write_file(folder / "train.bin", std::string(2 * count, '\7'));
    EXPECT_EQ(TokenShard(folder / "train.bin", TokenLayout::headerless).count(), count);
  }
}

TEST(HeaderlessTokenShard, WithAHeaderOrHalfATokenIsRefused) {
  const TemporaryFolder folder;
  const fs::path path = folder / "train.bin";
  const auto refusal = [&] {
    const auto error = error_of([&] { TokenShard shard(path, TokenLayout::headerless); });
    return error && error->kind() == ErrorKind::input ? error->message() : "not refused";
  };
  for (const TokenWidth width : {TokenWidth::u16, TokenWidth::u32}) {
    write_shard(path, {1, 2, 3}, width);
    EXPECT_TRUE(refusal().starts_with(path.string() + ": begins with the header of a token file (2024")) << refusal();
    EXPECT_TRUE(refusal().ends_with("write data.headerless: false")) << refusal();
  }
  write_file(path, "seven..");
  EXPECT_TRUE(refusal().starts_with(path.string() + ": holds 7 bytes, an odd number")) << refusal();
}

TEST(TokenSequence, ReadsAcrossShardsAsOne) {
  const TemporaryFolder folder;
  std::vector<Token> all;
  std::vector<fs::path> paths;
  const std::vector<std::size_t> sizes = {5, 0, 1, 9000, 0, 3};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto tokens = random_tokens(i, sizes[i], 60000);
    paths.push_back(folder / std::to_string(i));
    write_shard(paths.back(), tokens, i % 2 == 0 ? TokenWidth::u16 : TokenWidth::u32);
    all.insert(all.end(), tokens.begin(), tokens.end());
  }
  const TokenSequence sequence(paths, 60000);
  ASSERT_EQ(sequence.count(), all.size());
  EXPECT_TRUE(rc::check([&] {
    const std::size_t first = *rc::gen::inRange<std::size_t>(0, all.size() + 1);
    std::vector<Token> read(*rc::gen::inRange<std::size_t>(0, all.size() + 1 - first));
    sequence.read(first, read);
    RC_ASSERT(std::equal(read.begin(), read.end(), all.begin() + static_cast<std::ptrdiff_t>(first)));
  }));
  std::vector<Token> one(1);
  EXPECT_TRUE(error_of([&] { sequence.read(all.size(), one); }));
  EXPECT_TRUE(error_of([&] { sequence.read(~std::uint64_t{0}, one); }));
}

// The largest id is accepted like any other, at the window's ends as in its middle; the next one is refused with its
// place.
TEST(TokenSequence, ReadsNoTokenOutsideTheVocabulary) {
  const TemporaryFolder folder;
  for (const auto& [width, byte] : {std::pair(TokenWidth::u16, 1024 + 2 * 70), {TokenWidth::u32, 1024 + 4 * 70}}) {
    std::vector<Token> tokens = random_tokens(1, 200, 500);
    tokens[70] = 499;
    write_shard(folder / "whole", tokens, width);
    tokens[70] = 500;
    write_shard(folder / "damaged", tokens, width);
    const TokenSequence sequence({folder / "whole", folder / "damaged"}, 500);
    const auto read = [&](std::uint64_t first, std::size_t count) {
      std::vector<Token> window(count);
      sequence.read(first, window);
    };
    EXPECT_NO_THROW(read(0, 200));
    EXPECT_NO_THROW(read(150, 120));
    EXPECT_NO_THROW(read(271, 129));
    const std::string expected = (folder / "damaged").string() + ": token number 70, at byte " + std::to_string(byte) +
                                 ", is 500, and the vocabulary has 500 tokens";
    for (const auto& [first, count] : {std::pair(0, 400), {150, 121}, {270, 1}, {270, 130}, {261, 40}}) {
      EXPECT_TRUE(contains(input_error([&, at = first, n = count] { read(at, n); }), expected));
    }
  }
}

TEST(TokenSequence, OfNoShardsIsEmpty) {
  const TokenSequence sequence({}, 1);
  EXPECT_EQ(sequence.count(), 0U);
  EXPECT_NO_THROW(sequence.read(0, {}));
}

}  // namespace
}  // namespace inkling
