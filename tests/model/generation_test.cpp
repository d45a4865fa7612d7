// What a token may depend on: nothing behind it, nothing beside it in the batch, and the cache must not show.
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "tests/model/small_model.h"
#include "tests/oracle/tensors.h"
#include "tests/oracle/tolerances.h"

namespace inkling::test {
namespace {

KeyValueCache empty_cache(std::int64_t rows, const at::TensorOptions& options) {
  return {small_shape, rows, small_shape.block_size, options};
}

class Generation : public oracle::OnEverySetting {
 protected:
  void SetUp() override {
    OnEverySetting::SetUp();
    if (IsSkipped()) return;
    small_.emplace(make_lively_model(small_shape, {.runtime = runtime(), .use = Use::inference}));
  }

  at::Tensor tokens(std::uint64_t key, at::IntArrayRef shape) const {
    return oracle::tokens(key, shape, small_shape.vocab_size).to(options().device());
  }
  at::Tensor lengths(const std::vector<std::int64_t>& values) const {
    return at::tensor(values, at::kLong).to(options().device());
  }
  at::Tensor logits(const at::Tensor& tokens) const { return model().logits(tokens); }
  // Both have errors.
  void expect_same_logits(const at::Tensor& actual, const at::Tensor& expected) const {
    EXPECT_LT(oracle::error(actual, expected), 2.0 * logits_tolerance());
  }
  const Model& model() const { return *small_->model; }
  double logits_tolerance() const { return tolerance(logits_roundings(small_shape, 20)); }
  KeyValueCache cache(std::int64_t rows) const {
    return empty_cache(rows, options().dtype(backend().activation_dtype(setting().dtype)));
  }
  void expect_each_as_alone(const GptShape& shape) const {
    const std::vector<std::int64_t> prompt_lengths = {9, 2, 5};
    const at::Tensor text = tokens(6, {3, 20});
    KeyValueCache past(shape, 3, 20, options().dtype(backend().activation_dtype(setting().dtype)));
    std::vector<at::Tensor> together;
    model().prefill(text.slice(1, 0, 9), lengths(prompt_lengths), past);
    for (std::int64_t step = 0; step < 8; ++step) {
      together.push_back(model().decode(text.gather(1, past.lengths.unsqueeze(1)).squeeze(1), past));
    }
    for (std::int64_t row = 0; row < 3; ++row) {
      const std::int64_t length = prompt_lengths[static_cast<std::size_t>(row)];
      const at::Tensor expected = logits(text.slice(0, row, row + 1).slice(1, 0, length + 8));
      for (std::size_t step = 0; step < together.size(); ++step) {
        expect_same_logits(together[step][row], expected[0][length + static_cast<std::int64_t>(step)]);
      }
    }
  }

  at::NoGradGuard no_gradients_;
  std::optional<SmallModel> small_;
};

TEST_P(Generation, ChangingATokenChangesNothingBeforeIt) {
  const at::Tensor before = tokens(1, {2, 20});
  const at::Tensor expected = logits(before);
  for (const std::int64_t t : {0, 1, 7, 19}) {
    const at::Tensor after = before.clone();
    after.select(1, t).add_(1).remainder_(small_shape.vocab_size);
    const at::Tensor changed = logits(after);
    EXPECT_TRUE(oracle::identical(changed.slice(1, 0, t), expected.slice(1, 0, t))) << "token " << t;
    EXPECT_FALSE(oracle::identical(changed.select(1, t), expected.select(1, t))) << "token " << t;
    EXPECT_FALSE(oracle::identical(changed.select(1, 19), expected.select(1, 19))) << "token " << t;
  }
}

TEST_P(Generation, APaddedBatchGivesWhatEachRowGivesAlone) {
  const std::vector<std::int64_t> lengths = {20, 1, 13};
  const at::Tensor batch = tokens(2, {3, 20});
  for (const std::uint64_t padding : {3, 4}) {  // whatever stands behind a row's end
    const at::Tensor padded = tokens(padding, {3, 20});
    for (std::int64_t row = 0; row < 3; ++row) {
      const std::int64_t length = lengths[static_cast<std::size_t>(row)];
      padded[row].slice(0, 0, length).copy_(batch[row].slice(0, 0, length));
    }
    const at::Tensor together = logits(padded);
    for (std::int64_t row = 0; row < 3; ++row) {
      const std::int64_t length = lengths[static_cast<std::size_t>(row)];
      const at::Tensor alone = logits(batch.slice(0, row, row + 1).slice(1, 0, length));
      expect_same_logits(together[row].slice(0, 0, length), alone[0]);
    }
  }
}

TEST_P(Generation, CachedLogitsAreTheLogitsOfTheWholeText) {
  const at::Tensor text = tokens(5, {2, 20});
  const at::Tensor expected = logits(text);
  for (const std::int64_t prompt : {1, 6, 19}) {
    KeyValueCache past = cache(2);
    model().prefill(text.slice(1, 0, prompt), lengths({prompt, prompt}), past);
    for (std::int64_t t = prompt; t < 20; ++t) {
      expect_same_logits(model().decode(text.select(1, t), past), expected.select(1, t));
    }
    EXPECT_TRUE(past.lengths.eq(20).all().item<bool>());
  }
}

// Rings of three places, and of two in each of three interleaved texts: the longest of the prompts goes round.
TEST_P(Generation, UnequalPromptsInABatchGiveWhatEachGivesAlone) {
  GptShape windowed = small_shape;
  windowed.patterns = {{3, 1}, {2, 3}};
  for (const GptShape& shape : {small_shape, windowed}) {
    small_.emplace(make_lively_model(shape, {.runtime = runtime(), .use = Use::inference}));
    expect_each_as_alone(shape);
  }
}

INKLING_ON_EVERY_SETTING(Generation);
INSTANTIATE_TEST_SUITE_P(Inference, Generation, testing::ValuesIn(oracle::inference_settings),
                         [](const auto& instance) { return std::string(instance.param.name); });

// With the fused kernels a decoded row's bits are its own: the same text comes out whatever stands beside it.
TEST(FusedDecoding, ARowsBitsDoNotDependOnTheOtherRows) {
  const at::NoGradGuard no_gradients;
  const SmallModel small = make_lively_model(small_shape, {.use = Use::inference});
  const at::Tensor text = oracle::tokens(7, {5, 20}, small_shape.vocab_size);
  const at::Tensor prompt_lengths = at::tensor({3, 7, 1, 7, 4}, at::kLong);
  const auto run = [&](const at::Tensor& rows) {
    const at::Tensor texts = text.index_select(0, rows);
    KeyValueCache past = empty_cache(rows.size(0), at::kFloat);
    std::vector<at::Tensor> logits;
    for (std::int64_t row = 0; row < rows.size(0); ++row) {  // each alone: products of many rows are not so strict
      KeyValueCache own = empty_cache(1, at::kFloat);
      const at::Tensor length = prompt_lengths.index_select(0, rows).narrow(0, row, 1);
      small.model->prefill(texts.narrow(0, row, 1).slice(1, 0, 7), length, own);
      for (std::size_t layer = 0; layer < own.layers.size(); ++layer) {
        past.layers[layer].keys.narrow(0, row, 1).copy_(own.layers[layer].keys);
        past.layers[layer].values.narrow(0, row, 1).copy_(own.layers[layer].values);
      }
      past.lengths.narrow(0, row, 1).copy_(own.lengths);
    }
    for (int step = 0; step < 12; ++step) {
      logits.push_back(small.model->decode(texts.gather(1, past.lengths.unsqueeze(1)).squeeze(1), past));
    }
    return logits;
  };
  const std::vector<at::Tensor> together = run(at::tensor({0, 1, 2, 3, 4}, at::kLong));
  for (std::int64_t row = 0; row < 5; ++row) {
    const std::vector<at::Tensor> alone = run(at::tensor({row}, at::kLong));
    for (std::size_t step = 0; step < together.size(); ++step) {
      EXPECT_TRUE(oracle::identical(alone[step][0], together[step][row])) << "row " << row << ", step " << step;
    }
  }
}

}  // namespace
}  // namespace inkling::test
