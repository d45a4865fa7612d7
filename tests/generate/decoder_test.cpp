// The context rule, and that the cache changes nothing.
#include "generate/decoder.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <vector>

#include "base/random.h"
#include "tests/generate/loaded_model.h"
#include "tests/oracle/emulated_library.h"
#include "tests/oracle/tensors.h"

namespace inkling {
namespace {

using Text = std::vector<Token>;

Text random_text(std::uint64_t seed, std::size_t length, std::int64_t vocab_size) {
  Text text;
  for (std::size_t i = 0; i < length; ++i) {
    text.push_back(static_cast<Token>(random_below(seed, i, static_cast<std::uint64_t>(vocab_size))));
  }
  return text;
}

std::span<const Token> beginning(const Text& text, std::size_t length) { return std::span(text).first(length); }

at::Tensor logits_of(EagerLogits& decoder, const std::vector<std::span<const Token>>& texts) { return decoder(texts); }

void expect_near(const at::Tensor& actual, const at::Tensor& expected, std::size_t length) {
  constexpr std::int64_t longest_block = 17;
  EXPECT_LT(oracle::error(actual, expected), test::logits_difference(test::small_shape, longest_block))
      << "after " << length << " tokens";
}

TEST(ContextStart, IsZeroWhileEverythingFits) {
  for (std::uint64_t length = 0; length <= 8; ++length) EXPECT_EQ(context_start(length, 8), 0u);
}

TEST(ContextStart, KeepsTheLastHalfWhenTheBlockIsFull) {
  EXPECT_EQ(context_start(9, 8), 5u);   // tokens 5 to 8: the last four
  EXPECT_EQ(context_start(13, 8), 5u);  // which have grown to eight
  EXPECT_EQ(context_start(14, 8), 10u);
  EXPECT_EQ(context_start(10, 9), 6u);  // of nine, four
}

TEST(ContextStart, FollowsTheRuleStepByStepForEveryBlockSize) {
  EXPECT_TRUE(rc::check([] {
    const auto block_size = *rc::gen::inRange<std::uint64_t>(1, 40);
    std::uint64_t start = 0;
    for (std::uint64_t length = 1; length < 200; ++length) {
      if (length - start > block_size) start = length - std::max<std::uint64_t>(1, block_size / 2);
      RC_ASSERT(context_start(length, block_size) == start);
    }
  }));
}

class EveryKernel : public testing::TestWithParam<Kernels> {};

TEST_P(EveryKernel, CachedLogitsAreThoseWithoutACacheAcrossManyBlocks) {
  for (const std::int64_t block_size : {1, 2, 3, 16, 17}) {
    const LoadedModel model = make_loaded_model(make_char_tokenizer(false), block_size, GetParam());
    const Text text = random_text(7, static_cast<std::size_t>(4 * block_size + 3), model.model->shape().vocab_size);
    EagerLogits cached(*model.model, model.runtime, 1, true);
    EagerLogits uncached(*model.model, model.runtime, 1, false);
    for (std::size_t length = 1; length <= text.size(); ++length) {
      expect_near(logits_of(cached, {beginning(text, length)}), logits_of(uncached, {beginning(text, length)}), length);
    }
  }
}

// Windows that fit into a block several times, and positions of every kind: some of these models begin a context anew
// at the end of a block, some go on without end.
TEST_P(EveryKernel, CachedLogitsOfWindowsAreThoseWithoutACacheAcrossManyBlocks) {
  constexpr std::int64_t block_size = 17;
  for (const Position position : {Position::learned, Position::rope, Position::alibi, Position::none}) {
    for (const std::vector<AttentionPattern>& patterns : std::vector<std::vector<AttentionPattern>>{
             {{1, 1}}, {{5, 1}}, {{17, 1}}, {{3, 2}}, {{4, 4}}, {{3, 30}}, {{}, {4, 1}}, {{6, 1}, {2, 5}}}) {
      GptShape shape = test::small_shape;
      shape.position = position;
      shape.patterns = patterns;
      const LoadedModel model =
          make_loaded_model(make_char_tokenizer(false), block_size, test_runtime(GetParam()), shape);
      const Text text = random_text(7, static_cast<std::size_t>(3 * block_size + 3), model.model->shape().vocab_size);
      EagerLogits cached(*model.model, model.runtime, 1, true), uncached(*model.model, model.runtime, 1, false);
      EagerLogits prompted(*model.model, model.runtime, 1, true);
      for (std::size_t length = 1; length <= text.size(); ++length) {
        const at::Tensor expected = logits_of(uncached, {beginning(text, length)});
        expect_near(logits_of(cached, {beginning(text, length)}), expected, length);
        if (length >= 45) expect_near(logits_of(prompted, {beginning(text, length)}), expected, length);
      }
    }
  }
}

GptShape endless_shape() {
  GptShape shape = test::small_shape;
  shape.position = Position::rope;
  shape.patterns = {{5, 1}, {3, 4}};
  return shape;
}

TEST(Endless, TextsHaveContextsThatAreWhole) {
  const Text text = random_text(1, 100, 20);
  GptShape shape = endless_shape();
  EXPECT_EQ(context_of(text, shape).size(), 100u);
  EXPECT_EQ(penalized_tokens(text, shape).size(), static_cast<std::size_t>(shape.block_size));
  EXPECT_EQ(penalized_tokens(text, shape).back(), text.back());
  for (const auto& change : std::vector<void (*)(GptShape&)>{
           [](GptShape& s) { s.position = Position::learned; }, [](GptShape& s) { s.patterns[0] = {}; },
           [](GptShape& s) { s.block_size = 8; }, [](GptShape& s) { s.patterns.clear(); }}) {
    GptShape ends = shape;
    change(ends);
    EXPECT_FALSE(ends.is_endless());
    EXPECT_LE(context_of(text, ends).size(), static_cast<std::size_t>(ends.block_size));
  }
}

// Keys and values of W positions, or W times R, however long the text becomes.
TEST(Endless, CachesHoldTheWindowsAlone) {
  const GptShape shape = endless_shape();
  const KeyValueCache cache(shape, 1, INT64_MAX, at::kFloat);
  EXPECT_EQ(cache.layers[0].keys.size(2), 5);
  EXPECT_EQ(cache.layers[1].values.size(2), 12);
  const KeyValueCache small(shape, 1, 4, at::kFloat);
  EXPECT_EQ(small.layers[0].keys.size(2), 4);
  EXPECT_EQ(small.layers[1].values.size(2), 4);
}

TEST_P(EveryKernel, UncachedLogitsAreTheModelsOnTheContextAlone) {
  const LoadedModel model = make_loaded_model(make_char_tokenizer(false), 8, GetParam());
  const Text text = random_text(3, 14, model.model->shape().vocab_size);
  EagerLogits whole(*model.model, model.runtime, 1, false);
  EagerLogits part(*model.model, model.runtime, 1, false);
  EXPECT_TRUE(at::equal(logits_of(whole, {text}), logits_of(part, {std::span(text).subspan(10)})));
}

TEST_P(EveryKernel, APromptLongerThanABlockIsGoneOnFromAsIfItHadBeenGenerated) {
  const LoadedModel model = make_loaded_model(make_char_tokenizer(false), 16, GetParam());
  const Text text = random_text(5, 60, model.model->shape().vocab_size);
  EagerLogits grown(*model.model, model.runtime, 1, true);
  for (std::size_t length = 1; length < text.size(); ++length) logits_of(grown, {beginning(text, length)});
  EagerLogits prompted(*model.model, model.runtime, 1, true);
  expect_near(logits_of(prompted, {text}), logits_of(grown, {text}), text.size());
}

INSTANTIATE_TEST_SUITE_P(Cpu, EveryKernel, testing::Values(Kernels::fused, Kernels::reference),
                         [](const auto& kernels) { return kernels.param == Kernels::fused ? "Fused" : "Reference"; });

// Texts that begin a context anew at the end of a block, or go on without end; and with convolutions.
enum class Context { in_blocks, endless, convolved };

GptShape shape_of(Context context) {
  GptShape shape = context == Context::endless ? endless_shape() : test::small_shape;
  if (context == Context::convolved) shape.conv = 4;
  return shape;
}

class EveryContext : public testing::TestWithParam<Context> {
 protected:
  const LoadedModel model =
      make_loaded_model(make_char_tokenizer(false), 16, test_runtime(Kernels::fused), shape_of(GetParam()));
};

TEST_P(EveryContext, ARowsBitsAreItsOwnWhateverStandsBesideIt) {
  const std::int64_t vocab_size = model.model->shape().vocab_size;
  const std::vector<Text> texts = {random_text(1, 70, vocab_size), random_text(2, 70, vocab_size),
                                   random_text(3, 70, vocab_size)};
  const std::vector<std::size_t> prompt_lengths = {1, 9, 37};  // they reach their blocks' ends at different steps
  EagerLogits together(*model.model, model.runtime, 3, true);
  std::vector<EagerLogits> alone;
  for (std::size_t row = 0; row < 3; ++row) alone.emplace_back(*model.model, model.runtime, 1, true);
  for (std::size_t step = 0; step < 30; ++step) {
    std::vector<std::span<const Token>> rows;
    for (std::size_t row = 0; row < 3; ++row) rows.push_back(beginning(texts[row], prompt_lengths[row] + step));
    const at::Tensor all = logits_of(together, rows);
    for (std::size_t row = 0; row < 3; ++row) {
      const at::Tensor own = logits_of(alone[row], {rows[row]});
      EXPECT_TRUE(at::equal(all.narrow(0, static_cast<std::int64_t>(row), 1), own))
          << "row " << row << ", step " << step;
    }
  }
}

TEST_P(EveryContext, AfterARowIsRemovedTheLastTakesItsPlaceAndNewOnesBeginAfresh) {
  const Text a = random_text(1, 40, model.model->shape().vocab_size);
  const Text b = random_text(2, 40, model.model->shape().vocab_size);
  const Text c = random_text(3, 40, model.model->shape().vocab_size);
  EagerLogits decoder(*model.model, model.runtime, 2, true);
  logits_of(decoder, {beginning(a, 5), beginning(b, 7)});
  decoder.remove(0);
  const at::Tensor both = logits_of(decoder, {beginning(b, 8), beginning(c, 8)});
  EagerLogits alone_b(*model.model, model.runtime, 1, true);
  logits_of(alone_b, {beginning(b, 7)});
  EXPECT_TRUE(at::equal(both.narrow(0, 0, 1), logits_of(alone_b, {beginning(b, 8)})));
  EagerLogits alone_c(*model.model, model.runtime, 1, true);
  EXPECT_TRUE(at::equal(both.narrow(0, 1, 1), logits_of(alone_c, {beginning(c, 8)})));
}

std::string name_of(const testing::TestParamInfo<Context>& context) {
  if (context.param == Context::convolved) return "Convolved";
  return context.param == Context::endless ? "Endless" : "InBlocks";
}

INSTANTIATE_TEST_SUITE_P(Cpu, EveryContext, testing::Values(Context::in_blocks, Context::endless, Context::convolved),
                         name_of);

// Sixteen texts of GPT-2 in bfloat16 take 576 MiB, half of what they take in float32.
TEST(Decoder, TakesAsManyTextsTogetherAsTheirCachesHaveRoom) {
  class Shaped : public Model {
   public:
    using Model::Model;
    at::Tensor loss(const at::Tensor&, const at::Tensor&, const TrainingPass&) const override { return {}; }
    at::Tensor logits(const at::Tensor&) const override { return {}; }
    void prefill(const at::Tensor&, const at::Tensor&, KeyValueCache&) const override {}
    at::Tensor decode(const at::Tensor&, KeyValueCache&) const override { return {}; }
  };
  const GptShape shape = {.n_layer = 12, .n_head = 12, .n_embd = 768, .block_size = 1024, .vocab_size = 50257};
  const Shaped gpt2(shape, oracle::emulated_backend()),
      one_by_one(shape, choose_backend({.kernels = Kernels::reference}));
  constexpr std::int64_t mib = std::int64_t{1} << 20;
  Runtime runtime = test_runtime();
  EXPECT_EQ(rows_together(gpt2, runtime, 1024, cache_bytes(at::kCPU)), 7);
  EXPECT_EQ(rows_together(gpt2, runtime, 1024, 576 * mib), 8);
  runtime.dtype = at::kBFloat16;
  EXPECT_EQ(rows_together(gpt2, runtime, 1024, 576 * mib), 16);
  EXPECT_EQ(rows_together(gpt2, runtime, 1024, 575 * mib), 15);
  EXPECT_EQ(rows_together(gpt2, runtime, 1024, 40000 * mib), 16);
  EXPECT_EQ(rows_together(gpt2, runtime, 1024, mib), 1);
  EXPECT_EQ(rows_together(gpt2, runtime, 14, mib), 2);  // 12 x 2 x 768 x 14 x 2 bytes each
  EXPECT_EQ(rows_together(one_by_one, runtime, 1024, 40000 * mib), 1);
}

// Caches have room for the longest text and no more, and the texts are the same.
TEST(Decoder, CachesTakeWhatIsGenerated) {
  LoadedModel model = make_loaded_model(make_char_tokenizer(false), 17);
  const Text text = random_text(1, 12, model.model->shape().vocab_size);
  EagerLogits whole(*model.model, model.runtime, 1, true), fitting(*model.model, model.runtime, 1, true, 12);
  for (std::size_t length = 5; length <= 12; ++length) {
    EXPECT_TRUE(
        oracle::identical(logits_of(whole, {beginning(text, length)}), logits_of(fitting, {beginning(text, length)})));
  }
  EXPECT_EQ(longest_context(model.model->shape(), 12), 12);
  EXPECT_EQ(longest_context(model.model->shape(), INT64_MAX), 17);
}

TEST(Decoder, LeavesTheWeightsWithoutGradients) {
  const LoadedModel model = make_loaded_model(make_char_tokenizer(false), 16);
  EagerLogits decoder(*model.model, model.runtime, 1, true);
  EXPECT_FALSE(logits_of(decoder, {random_text(1, 3, model.model->shape().vocab_size)}).requires_grad());
}

}  // namespace
}  // namespace inkling
