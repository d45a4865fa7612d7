// The loss on a validation split against sums made by hand, and the comparison with the best possible one.
#include "evaluate/validation.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/files.h"
#include "tests/evaluate/by_hand.h"
#include "tests/model/small_model.h"
#include "tests/temporary_folder.h"
#include "tests/token_shard.h"

namespace inkling {
namespace {

const Runtime runtime = {.threads = 1};
const double rounding = test::logits_difference(test::small_shape, test::small_shape.block_size);  // of windows' losses

double nats_of(const test::SmallModel& small, const std::vector<Token>& tokens) {
  return test::nats_by_hand(small.model->shape(), *small.arena, tokens);
}

TEST(ScoreWindows, EveryTokenButTheFirstIsScoredOnceGivenThoseBeforeItInItsWindow) {
  const TemporaryFolder folder;
  const test::SmallModel model = test::make_lively_model(test::small_shape, {.use = Use::inference});
  constexpr std::size_t block = 20;
  for (const std::size_t count : {2, 20, 21, 22, 41, 150}) {
    const std::vector<Token> tokens = test::random_tokens(count, 41);
    const TokenSequence sequence({write_shard(folder / ("tokens-" + std::to_string(count)), tokens)}, 41);
    const auto pieces = score_windows(*model.model, runtime, sequence);
    ASSERT_EQ(pieces.size(), (count - 1 + block - 1) / block);
    std::uint64_t scored = 0;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const auto first = tokens.begin() + static_cast<std::ptrdiff_t>(i * block);
      const std::vector<Token> window(first,
                                      first + static_cast<std::ptrdiff_t>(std::min(block + 1, count - i * block)));
      EXPECT_EQ(pieces[i].tokens, window.size() - 1);
      EXPECT_NEAR(pieces[i].nats, nats_of(model, window), rounding * pieces[i].nats) << count << " " << i;
      scored += pieces[i].tokens;
    }
    EXPECT_EQ(scored, count - 1);
  }
}

TEST(ScoreWindows, GiveTheSameBitsWithAnyNumberOfThreads) {
  const TemporaryFolder folder;
  const TokenSequence sequence({write_shard(folder / "tokens", test::random_tokens(4000, 41))}, 41);
  for (const Kernels kernels : {Kernels::fused, Kernels::reference}) {
    const test::SmallModel model =
        test::make_lively_model(test::small_shape, {.runtime = {.kernels = kernels}, .use = Use::inference});
    std::vector<std::vector<double>> nats;
    for (const int threads : {1, 2, 3, 7}) {
      at::set_num_threads(threads);
      std::vector<double>& all = nats.emplace_back();
      for (const ScoredPiece& piece : score_windows(*model.model, {.threads = threads}, sequence)) {
        all.push_back(piece.nats);
      }
      EXPECT_EQ(all, nats.front()) << threads;
    }
    EXPECT_EQ(nats.front().size(), 200u);
  }
}

TEST(ScoreWindows, ALimitTakesTheFirstWindows) {
  const TemporaryFolder folder;
  const test::SmallModel model = test::make_lively_model(test::small_shape, {.use = Use::inference});
  const TokenSequence sequence({write_shard(folder / "tokens", test::random_tokens(150, 41))}, 41);
  const auto all = score_windows(*model.model, runtime, sequence);
  const auto some = score_windows(*model.model, runtime, sequence, 3);
  ASSERT_EQ(some.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(some[i].nats, all[i].nats, rounding * all[i].nats);
}

TEST(ScoreWindows, AStrideGivesEveryTokenMoreContextAndScoresTheSameTokens) {
  const TemporaryFolder folder;
  const test::SmallModel model = test::make_lively_model(test::small_shape, {.use = Use::inference});
  const std::vector<Token> tokens = test::random_tokens(75, 41);
  const TokenSequence sequence({write_shard(folder / "tokens", tokens)}, 41);
  for (const std::int64_t stride : {1, 7, 10, 19, 20}) {
    const auto pieces = score_windows(*model.model, runtime, sequence, 0, stride);
    double nats = 0;
    std::uint64_t scored = 0;
    for (const ScoredPiece& piece : pieces) nats += piece.nats, scored += piece.tokens;
    EXPECT_EQ(scored, 74u) << stride;
    EXPECT_GE(pieces.size(), 20 % stride == 0 ? 4u : 3u) << stride;  // of block_size tokens, whatever the stride
    EXPECT_LE(pieces.size(), 4u) << stride;
    const double expected =
        test::nats_by_strides(test::small_shape, *model.arena, tokens, static_cast<std::size_t>(stride));
    EXPECT_NEAR(nats, expected, rounding * expected) << stride;
  }
}

// A document's tokens see none before its separator, which is 0 here; the last one predicts the next separator.
TEST(ScoreWindows, WithASeparatorEachDocumentIsAText) {
  const TemporaryFolder folder;
  const test::SmallModel model = test::make_lively_model(test::small_shape, {.use = Use::inference});
  std::vector<Token> tokens = test::random_tokens(150, 41);
  for (Token& token : tokens) token = std::max<Token>(token, 1);
  for (const std::size_t place : {0, 3, 4, 24, 25, 90, 149}) tokens[place] = 0;
  const TokenSequence sequence({write_shard(folder / "tokens", tokens)}, 41);
  for (const std::size_t stride : {20, 7}) {
    double nats = 0, expected = 0;
    std::uint64_t scored = 0;
    for (const ScoredPiece& piece :
         score_windows(*model.model, runtime, sequence, 0, static_cast<std::int64_t>(stride), 0)) {
      nats += piece.nats;
      scored += piece.tokens;
    }
    for (auto begin = tokens.begin(); begin != tokens.end() - 1;) {
      const auto end = std::find(begin + 1, tokens.end(), 0);
      expected += test::nats_by_strides(test::small_shape, *model.arena, {begin, end + 1}, stride);
      begin = end;
    }
    EXPECT_EQ(scored, 149u);
    EXPECT_NEAR(nats, expected, rounding * expected) << stride;
  }
}

TEST(ScoreWindows, AStrideOutOfItsRangeIsRefused) {
  const TemporaryFolder folder;
  const test::SmallModel model = test::make_lively_model(test::small_shape, {.use = Use::inference});
  const TokenSequence sequence({write_shard(folder / "tokens", test::random_tokens(30, 41))}, 41);
  for (const std::int64_t stride : {-1, 0, 21}) {
    const std::string message = input_error([&] { score_windows(*model.model, runtime, sequence, 0, stride); });
    EXPECT_TRUE(contains(message, str("the stride is ", stride, " and must be from 1 to 20"))) << message;
  }
}

TEST(ScoreStories, EachStoryIsScoredAloneFromItsBeginningToItsEnd) {
  const TemporaryFolder folder;
  const test::SmallModel model = test::make_lively_model(test::small_shape, {.use = Use::inference});
  constexpr Token separator = 40;
  std::vector<Token> tokens;
  std::vector<StoryBound> stories;
  std::vector<std::vector<Token>> alone;
  for (const std::size_t length : {3, 19, 1, 0, 7, 12}) {
    std::vector<Token> story = test::random_tokens(length, 40);
    story.push_back(separator);
    tokens.insert(tokens.end(), story.begin(), story.end());
    stories.push_back({story.size(), story.size(), 1.0});
    story.insert(story.begin(), separator);
    alone.push_back(story);
  }
  const TokenSequence sequence({write_shard(folder / "tokens", tokens)}, 41);
  const auto pieces = score_stories(*model.model, runtime, sequence, separator, stories);
  for (std::size_t i = 0; i < stories.size(); ++i) {
    EXPECT_EQ(pieces[i].tokens, stories[i].tokens);
    EXPECT_NEAR(pieces[i].nats, nats_of(model, alone[i]), rounding * pieces[i].nats) << i;
  }
  stories[1].tokens = 19;  // the bound of another text
  EXPECT_TRUE(error_of([&] { score_stories(*model.model, runtime, sequence, separator, stories); }));
}

// A grammar of 8 equally likely stories, and its data set.
struct Fables {
  TemporaryFolder folder;
  Dataset dataset;

  Fables() {
    write_file(
        folder / "tiny.grammar",
        "story:\n  * A {colour} {animal} ran {place}.\n\ncolour:\n  * red\n  * blue\n\nanimal:\n  * hen\n  * fox\n\n"
        "place:\n  * home\n  * away\n");
    DataConfig data;
    data.source = {(folder / "tiny.grammar").string()};
    data.dir = (folder / "data").string();
    data.stories = 400;
    dataset = prepare_dataset(data, {});
  }

  test::SmallModel model(std::int64_t block_size) const {
    GptShape shape = test::small_shape;
    shape.block_size = block_size;
    shape.vocab_size = static_cast<std::int64_t>(dataset.vocab_size);
    return test::make_small_model(shape, {.use = Use::inference});
  }
};

TEST(EvaluateValidation, ComparesStoriesWithTheBestPossibleLoss) {
  const Fables fables;
  const test::SmallModel model = fables.model(64);
  const Evaluation result = evaluate_validation(*model.model, runtime, fables.dataset);
  ASSERT_TRUE(result.bound);
  EXPECT_EQ(result.tokens, fables.dataset.validation.tokens);
  EXPECT_EQ(result.pieces, fables.dataset.validation.documents);
  // Each story has -log p = 3 ln 2 nats, whatever its length.
  const double best = 3 * std::log(2.0) * static_cast<double>(result.pieces) / static_cast<double>(result.tokens);
  EXPECT_NEAR(result.bound->best_possible, best, 1e-9);
  EXPECT_NEAR(result.bound->excess, result.loss - best, 1e-9);
  EXPECT_NEAR(result.bound->excess_ratio(), result.loss / best - 1, 1e-9);
  EXPECT_NEAR(result.loss, std::log(static_cast<double>(fables.dataset.vocab_size)), 0.1);  // untrained
  EXPECT_NEAR(*result.bits_per_byte * static_cast<double>(fables.dataset.validation.bytes) * std::log(2.0),
              result.loss * static_cast<double>(result.tokens), 1e-6);
  EXPECT_FALSE(result.bound->impossible());
  EXPECT_FALSE(why_no_bound(fables.dataset, 64));
}

TEST(EvaluateValidation, WithoutRoomForAStoryThereIsNoBoundAndAReason) {
  const Fables fables;
  const test::SmallModel model = fables.model(8);
  const Evaluation result = evaluate_validation(*model.model, runtime, fables.dataset);
  EXPECT_FALSE(result.bound);
  EXPECT_EQ(result.tokens, fables.dataset.validation.tokens - 1);
  ASSERT_TRUE(why_no_bound(fables.dataset, 8));
  EXPECT_NE(why_no_bound(fables.dataset, 8)->find("block_size is 8"), std::string::npos);
}

TEST(EvaluateValidation, AVocabularyLargerThanTheModelsIsRefused) {
  const Fables fables;
  GptShape shape = test::small_shape;
  shape.vocab_size = 5;
  const test::SmallModel model = test::make_small_model(shape, {.use = Use::inference});
  const auto error = error_of([&] { evaluate_validation(*model.model, runtime, fables.dataset); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::input);
}

TEST(EvaluateValidation, AStrideOutOfItsRangeIsRefusedEvenWhereStoriesNeedNone) {
  const Fables fables;
  const test::SmallModel model = fables.model(64);
  for (const std::int64_t stride : {-5, 0, 65}) {
    const std::string message =
        input_error([&] { evaluate_validation(*model.model, runtime, fables.dataset, 0, stride); });
    EXPECT_TRUE(contains(message, str("the stride is ", stride, " and must be from 1 to 64"))) << message;
  }
  EXPECT_TRUE(evaluate_validation(*model.model, runtime, fables.dataset, 0, 64).bound);
}

TEST(EvaluateValidation, IsTheSameEveryTime) {
  const Fables fables;
  const test::SmallModel model = fables.model(64);
  EXPECT_EQ(evaluate_validation(*model.model, runtime, fables.dataset).loss,
            evaluate_validation(*model.model, runtime, fables.dataset).loss);
}

TEST(BoundComparison, OnlyMoreThanThreeStandardErrorsBelowTheBoundAreImpossible) {
  EXPECT_FALSE((BoundComparison{.best_possible = 1, .excess = 0.1, .excess_standard_error = 0.01}).impossible());
  EXPECT_FALSE((BoundComparison{.best_possible = 1, .excess = -0.029, .excess_standard_error = 0.01}).impossible());
  EXPECT_TRUE((BoundComparison{.best_possible = 1, .excess = -0.031, .excess_standard_error = 0.01}).impossible());
}

}  // namespace
}  // namespace inkling
