#include "data/windows.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/temporary_folder.h"
#include "tests/token_shard.h"

namespace inkling {
namespace {

using Windows = std::vector<std::vector<TokenRange>>;

constexpr Token separator = 0;

TokenSequence sequence_of(const TemporaryFolder& folder, const std::vector<Token>& tokens) {
  return TokenSequence({write_shard(folder / "tokens.bin", tokens)}, 3);
}

Windows windows_of(const PackedWindows& packed) {
  Windows all;
  for (std::uint64_t i = 0; i < packed.count(); ++i) {
    const auto pieces = packed.window(i);
    all.emplace_back(pieces.begin(), pieces.end());
  }
  return all;
}

// The rule as docs/formats.md has it, word for word, in time n^2.
Windows by_the_rule(const std::vector<Token>& tokens, std::uint64_t block_size) {
  std::vector<TokenRange> pieces;
  for (std::uint64_t i = 0; i + 1 < tokens.size(); ++i) {
    const bool begins = i == 0 || tokens[i] == separator || pieces.back().count == block_size;
    if (begins) pieces.push_back({i, 0});
    ++pieces.back().count;
  }
  Windows windows;
  std::vector<std::uint64_t> rooms;
  for (std::uint64_t length = block_size; length > 0; --length) {
    for (const TokenRange& piece : pieces) {
      if (piece.count != length) continue;
      std::size_t best = windows.size();
      for (std::size_t i = 0; i < windows.size(); ++i) {
        if (rooms[i] >= length && (best == windows.size() || rooms[i] < rooms[best])) best = i;
      }
      if (best == windows.size()) {
        windows.emplace_back();
        rooms.push_back(block_size);
      }
      windows[best].push_back(piece);
      rooms[best] -= length;
    }
  }
  return windows;
}

TEST(PackedWindows, AreThoseOfTheRule) {
  EXPECT_TRUE(rc::check([] {
    const TemporaryFolder folder;
    const auto block_size = *rc::gen::inRange<std::uint64_t>(1, 20);
    const auto count = *rc::gen::inRange<std::size_t>(2, 200);
    const auto one_in = *rc::gen::inRange<int>(1, 30);  // tokens is a separator
    std::vector<Token> tokens;
    for (std::size_t i = 0; i < count; ++i) {
      tokens.push_back(*rc::gen::inRange(0, one_in) == 0 ? separator : *rc::gen::inRange<Token>(1, 3));
    }
    const PackedWindows packed(sequence_of(folder, tokens), separator, block_size);
    const Windows windows = windows_of(packed);
    RC_ASSERT(windows == by_the_rule(tokens, block_size));
    std::uint64_t used = 0;
    std::vector<int> times(count, 0);
    for (const auto& window : windows) {
      std::uint64_t inputs = 0;
      for (const TokenRange& piece : window) {
        inputs += piece.count;
        for (std::uint64_t i = 0; i < piece.count; ++i) ++times[piece.first + i];
      }
      RC_ASSERT(inputs > 0 && inputs <= block_size);
      used += inputs;
    }
    RC_ASSERT(times == [&] {  // each token but the last is an input once
      std::vector<int> once(count, 1);
      once.back() = 0;
      return once;
    }());
    const double places = static_cast<double>(packed.count() * block_size);
    RC_ASSERT(std::abs(packed.unused_share() - (1.0 - static_cast<double>(used) / places)) < 1e-12);
  }));
}

// 0 a b | 0 a | 0 a a a a a a | 0 a, the last token without one behind it
TEST(PackedWindows, OfFourDocuments) {
  const TemporaryFolder folder;
  const TokenSequence tokens = sequence_of(folder, {0, 1, 2, 0, 1, 0, 1, 1, 1, 1, 1, 1, 0, 1});
  const PackedWindows packed(tokens, separator, 4);
  const Windows expected = {{{5, 4}}, {{0, 3}, {12, 1}}, {{9, 3}}, {{3, 2}}};
  EXPECT_EQ(windows_of(packed), expected);
  EXPECT_EQ(packed.documents(), 4u);
  EXPECT_EQ(packed.cut_documents(), 1u);
  EXPECT_DOUBLE_EQ(packed.unused_share(), 3.0 / 16.0);
}

TEST(PackedWindows, TextBeforeTheFirstSeparatorIsADocumentAndNothingBehindTheLastIsNone) {
  const TemporaryFolder folder;
  const PackedWindows packed(sequence_of(folder, {1, 2, 0, 1, 0}), separator, 8);
  EXPECT_EQ(windows_of(packed), (Windows{{{0, 2}, {2, 2}}}));
  EXPECT_EQ(packed.documents(), 2u);
}

TEST(PackedWindows, AreFoundInEveryPartOfALongSequence) {
  const TemporaryFolder folder;
  std::vector<Token> tokens((1 << 20) + 5, 1);
  for (const std::size_t place : {(1 << 20) - 1, 1 << 20, (1 << 20) + 3}) tokens[place] = separator;
  const PackedWindows packed(sequence_of(folder, tokens), separator, 1 << 20);
  EXPECT_EQ(windows_of(packed),
            (Windows{{{0, (1 << 20) - 1}, {(1 << 20) - 1, 1}}, {{1 << 20, 3}, {(1 << 20) + 3, 1}}}));
}

TEST(PackedWindows, OfOneTokenThereAreNone) {
  const TemporaryFolder folder;
  const TokenSequence one = sequence_of(folder, {1});
  EXPECT_TRUE(contains(input_error([&] { PackedWindows(one, separator, 8); }), "two tokens"));
}

}  // namespace
}  // namespace inkling
