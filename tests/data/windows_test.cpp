#include "data/windows.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <set>
#include <vector>

#include "tests/temporary_folder.h"
#include "tests/text/sentencepiece_testing.h"
#include "tests/token_shard.h"

namespace inkling {
namespace {

struct Shape {
  std::uint64_t seed, tokens, block_size;
};

Shape any_shape() {
  const auto block_size = *rc::gen::inRange<std::uint64_t>(1, 40);
  const auto tokens = *rc::gen::inRange<std::uint64_t>(block_size + 1, 50 * block_size + 2);
  return {*rc::gen::arbitrary<std::uint64_t>(), tokens, block_size};
}

std::vector<std::uint64_t> epoch_starts(const WindowOrder& order, std::uint64_t epoch) {
  std::vector<std::uint64_t> starts;
  const std::uint64_t windows = order.windows_per_epoch();
  for (std::uint64_t i = 0; i < windows; ++i) starts.push_back(order.start(epoch * windows + i));
  return starts;
}

TEST(WindowOrder, AnEpochIsBackToBackWindowsEachOnceAndInside) {
  EXPECT_TRUE(rc::check([] {
    const Shape shape = any_shape();
    const WindowOrder order(WindowKind::epoch, shape.seed, shape.tokens, shape.block_size);
    const auto epoch = *rc::gen::inRange<std::uint64_t>(0, 1000);
    std::vector<std::uint64_t> starts = epoch_starts(order, epoch);
    std::sort(starts.begin(), starts.end());
    RC_ASSERT(starts.back() + shape.block_size < shape.tokens);
    for (std::size_t i = 1; i < starts.size(); ++i) RC_ASSERT(starts[i] - starts[i - 1] == shape.block_size);
  }));
}

TEST(WindowOrder, AnEpochLeavesOutLessThanTwoWindows) {
  EXPECT_TRUE(rc::check([] {
    const Shape shape = any_shape();
    const WindowOrder order(WindowKind::epoch, shape.seed, shape.tokens, shape.block_size);
    const std::uint64_t used = order.windows_per_epoch() * shape.block_size;
    RC_ASSERT(used >= shape.block_size);
    RC_ASSERT(shape.tokens - 1 - used < 2 * shape.block_size);
  }));
}

TEST(WindowOrder, EveryTokenIsReachedOverTheEpochs) {
  const WindowOrder order(WindowKind::epoch, 7, 103, 10);
  std::set<std::uint64_t> seen;
  for (std::uint64_t epoch = 0; epoch < 200; ++epoch) {
    for (const std::uint64_t start : epoch_starts(order, epoch)) {
      for (std::uint64_t t = 0; t <= 10; ++t) seen.insert(start + t);
    }
  }
  EXPECT_EQ(seen.size(), 103u);
}

TEST(WindowOrder, EpochsDifferInOrderAndPhase) {
  const WindowOrder order(WindowKind::epoch, 1, 100000, 64);
  std::vector<std::uint64_t> first = epoch_starts(order, 0), second = epoch_starts(order, 1);
  EXPECT_NE(first, second);
  EXPECT_FALSE(std::is_sorted(first.begin(), first.end()));
  EXPECT_NE(first.front() % 64, second.front() % 64);
}

TEST(WindowOrder, AnotherSeedIsAnotherOrder) {
  const WindowOrder one(WindowKind::epoch, 1, 100000, 64), two(WindowKind::epoch, 2, 100000, 64);
  EXPECT_NE(epoch_starts(one, 0), epoch_starts(two, 0));
}

// A batch is rows step * B … step * B + B - 1, whoever computes which of them: only the running number counts.
TEST(WindowOrder, TheSameWindowsComeForAnyBatchSizeAndRankCount) {
  const WindowOrder order(WindowKind::epoch, 3, 5000, 16);
  std::vector<std::uint64_t> by_twelve, by_ranks;
  for (std::uint64_t step = 0; step < 10; ++step) {
    for (std::uint64_t row = 0; row < 12; ++row) by_twelve.push_back(order.start(step * 12 + row));
  }
  const WindowOrder on_another_machine(WindowKind::epoch, 3, 5000, 16);
  by_ranks.resize(120);
  for (const std::uint64_t rank : {2, 0, 1}) {
    for (std::uint64_t sample = rank; sample < 120; sample += 3) by_ranks[sample] = on_another_machine.start(sample);
  }
  EXPECT_EQ(by_twelve, by_ranks);
}

TEST(WindowOrder, RandomOffsetsAreNanoGptsRange) {
  const WindowOrder order(WindowKind::random, 5, 20, 16);  // offsets 0 to 3, as torch.randint(len(data) - block_size)
  std::vector<int> hits(4, 0);
  for (std::uint64_t sample = 0; sample < 4000; ++sample) {
    ASSERT_LT(order.start(sample), 4u);
    ++hits[order.start(sample)];
  }
  for (const int count : hits) EXPECT_NEAR(count, 1000, 150);
}

// Numbers for docs/formats.md: another program that replays a run must come to these.
TEST(WindowOrder, StartsAreTheSameOnEveryMachineForEver) {
  const WindowOrder epoch(WindowKind::epoch, 1, 1003854, 64), random(WindowKind::random, 1, 1003854, 64);
  EXPECT_EQ(epoch.windows_per_epoch(), 15684u);
  const std::vector<std::uint64_t> epoch_expected{44667, 975547, 419067, 644930};
  const std::vector<std::uint64_t> random_expected{759953, 898656, 1003112};
  for (std::size_t k = 0; k < 3; ++k) {
    EXPECT_EQ(epoch.start(k), epoch_expected[k]);
    EXPECT_EQ(random.start(k), random_expected[k]);
  }
  EXPECT_EQ(epoch.start(15684), epoch_expected[3]);
}

TEST(WindowOrder, OneWindowIsEnough) {
  const WindowOrder order(WindowKind::epoch, 1, 9, 8);
  EXPECT_EQ(order.windows_per_epoch(), 1u);
  for (std::uint64_t sample = 0; sample < 10; ++sample) EXPECT_EQ(order.start(sample), 0u);
}

TEST(NumberedWindows, OfAnEpochComeOnceEachInAnOrderOfItsOwn) {
  std::vector<std::vector<std::uint64_t>> epochs(2);
  for (std::uint64_t sample = 0; sample < 200; ++sample) {
    epochs[sample / 100].push_back(numbered_window(WindowKind::epoch, 3, 100, sample));
  }
  EXPECT_NE(epochs[0], epochs[1]);
  for (std::vector<std::uint64_t>& epoch : epochs) {
    EXPECT_FALSE(std::is_sorted(epoch.begin(), epoch.end()));
    std::sort(epoch.begin(), epoch.end());
    for (std::uint64_t i = 0; i < 100; ++i) EXPECT_EQ(epoch[i], i);
  }
}

// Numbers for docs/formats.md.
TEST(NumberedWindows, AreTheSameOnEveryMachineForEver) {
  const auto numbers = [](WindowKind kind) {
    std::vector<std::uint64_t> all;
    for (const std::uint64_t sample : {0, 1, 2, 15684}) all.push_back(numbered_window(kind, 1, 15684, sample));
    return all;
  };
  EXPECT_EQ(numbers(WindowKind::epoch), (std::vector<std::uint64_t>{697, 15242, 6547, 10077}));
  EXPECT_EQ(numbers(WindowKind::random), (std::vector<std::uint64_t>{11874, 14041, 15673, 14242}));
}

TEST(TrainingWindows, AreThoseOfTheOrderOrThePackedOnes) {
  const TemporaryFolder folder;
  std::vector<Token> drawn;
  for (std::uint64_t i = 0; i < 1000; ++i) drawn.push_back(static_cast<Token>(random_below(1, i, 20)));
  const TokenSequence tokens({write_shard(folder / "tokens.bin", drawn)}, 20);
  for (const WindowKind kind : {WindowKind::epoch, WindowKind::random}) {
    WindowSettings settings = {.order = kind, .seed = 9, .block_size = 16, .separator = 3};
    const WindowOrder order(kind, 9, 1000, 16);
    for (const Documents documents : {Documents::join, Documents::mask}) {
      settings.documents = documents;
      const TrainingWindows windows(tokens, settings);
      EXPECT_EQ(windows.packed(), nullptr);
      for (std::uint64_t k = 0; k < 100; ++k) {
        EXPECT_EQ(windows.window(k), (std::vector<TokenRange>{{order.start(k), 16}}));
      }
    }
    settings.documents = Documents::align;
    const TrainingWindows windows(tokens, settings);
    const PackedWindows packed(tokens, 3, 16);
    for (std::uint64_t k = 0; k < 200; ++k) {
      const auto expected = packed.window(numbered_window(kind, 9, packed.count(), k));
      EXPECT_TRUE(std::ranges::equal(windows.window(k), expected)) << k;
    }
  }
}

TEST(DocumentSeparator, IsWhatDocumentsBeginWithWhereTheyAreKeptApart) {
  const TemporaryFolder folder;
  folder.write("llama/tokenizer.model", model_like_llama());
  const auto llama = load_tokenizer(folder / "llama"), bytes = make_byte_tokenizer(true),
             none = make_byte_tokenizer(false);
  ASSERT_TRUE(llama->first_token() && llama->separator() && llama->first_token() != llama->separator());
  EXPECT_EQ(document_separator(Documents::join, nullptr), std::nullopt);
  EXPECT_EQ(document_separator(Documents::mask, bytes.get()), bytes->separator());
  EXPECT_EQ(document_separator(Documents::align, llama.get()), llama->first_token());
  const auto refusal = [](const Tokenizer* tokenizer) {
    return input_error([&] { document_separator(Documents::align, tokenizer); });
  };
  EXPECT_TRUE(contains(refusal(none.get()), "data.documents is align, and the tokenizer has no token"));
  EXPECT_TRUE(contains(refusal(nullptr), "model.init_from"));
}

TEST(WindowOrder, TooFewTokensAreRefusedWithBothNumbers) {
  const std::string message = input_error([] { WindowOrder(WindowKind::epoch, 1, 64, 64); });
  EXPECT_TRUE(contains(message, "64 tokens"));
  EXPECT_TRUE(contains(message, "65"));
  EXPECT_TRUE(contains(message, "block_size"));
}

}  // namespace
}  // namespace inkling
