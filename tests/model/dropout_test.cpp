// Dropout is a function of (key, place): the oracle draws the same numbers from the specification.
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>

#include <cmath>

#include "backend/choose.h"
#include "backend/cpu_backend.h"
#include "backend/cuda_backend.h"
#include "backend/elements.h"
#include "base/random.h"
#include "model/model.h"
#include "model/operations.h"
#include "tests/oracle/emulated_library.h"
#include "tests/oracle/ops.h"
#include "tests/oracle/tensors.h"
#include "tests/oracle/tolerances.h"

namespace inkling {
namespace {

constexpr std::uint64_t key = random_key(5, Purpose::dropout, 17);

Pass dropping(double probability) {
  return {.backend = cpu_backend(), .training = {.dropout = probability, .dropout_key = oracle::key_on(at::kCPU, key)}};
}

TEST(Dropout, IsTheIdentityOutsideTraining) {
  const at::Tensor x = oracle::normal(1, {4, 5}).to(at::kFloat);
  Pass ours = dropping(0.0);
  EXPECT_TRUE(dropout(x, ours).is_same(x));
  EXPECT_EQ(ours.dropout_places, 0u);
}

TEST(Dropout, DoesNotDependOnTheNumberOfThreads) {
  const at::Tensor x = oracle::normal(1, {200, 200}).to(at::kFloat);
  const auto with_threads = [&](int threads) {
    at::set_num_threads(threads);
    Pass ours = dropping(0.5);
    return dropout(x, ours);
  };
  EXPECT_TRUE(oracle::identical(with_threads(1), with_threads(3)));
}

class AttentionDropout : public oracle::OnEverySetting {};

TEST_P(AttentionDropout, FallsOnTheProbabilities) {
  const at::Tensor qkv = oracle::normal(1, {2, 33, 72}).to(options()).set_requires_grad(true);
  const at::Tensor plain = qkv.detach().to(at::kCPU, at::kDouble).set_requires_grad(true);
  const AttentionForm form = {.n_head = 3, .n_kv_head = 3, .head_size = 8};
  Pass ours = pass(0.2, key);
  oracle::Dropout dropout_of_oracle{0.2, key};
  const at::Tensor out = attention(qkv, form, ours);
  const at::Tensor expected = oracle::causal_attention(plain, form, dropout_of_oracle);
  // Heads of 8, 33 keys, scores of standard deviation 1; backward, twice as much.
  const double sums = oracle::in_softmax(8, 2.0) + 33 + oracle::function_roundings;
  EXPECT_LT(oracle::error(out, expected), tolerance({.sums = sums, .kept = 1}));
  const at::Tensor upstream = oracle::normal(2, expected.sizes()).to(options());
  out.backward(upstream);
  expected.backward(upstream.to(at::kCPU, at::kDouble));
  EXPECT_LT(oracle::error(qkv.grad(), plain.grad()), tolerance({.sums = 2 * sums + 33 + 8, .kept = 2}));
}

INKLING_ON_SETTINGS_WHERE(AttentionDropout, [](const oracle::Setting& setting) {
  return oracle::is_fused(setting) && oracle::numbers_are_ours(setting);
});

// cuDNN's attention would train with 3/16 where 0.2 is asked for.
TEST(CudnnAttention, TakesDropoutInSixteenthsOnly) {
  for (const double exact : {0.0, 0.0625, 0.25, 0.5}) EXPECT_TRUE(cuda::cudnn_attends(64, exact)) << exact;
  for (const double rounded : {0.1, 0.2, 0.3, 1.0 / 32}) EXPECT_FALSE(cuda::cudnn_attends(64, rounded)) << rounded;
  EXPECT_FALSE(cuda::cudnn_attends(1, 0.0));
}

TEST_P(AttentionDropout, FallsByTheRowOfTheBatch) {
  const at::Tensor qkv = oracle::normal(1, {5, 33, 72}).to(options());
  const AttentionForm form = {.n_head = 3, .n_kv_head = 3, .head_size = 8};
  Pass whole = pass(0.2, key), rest = pass(0.2, key);
  rest.training.dropout_key = oracle::key_on(options().device(), key, 3);
  const at::Tensor expected = attention(qkv, form, whole).narrow(0, 3, 2);
  const double sums = oracle::in_softmax(8, 2.0) + 33 + oracle::function_roundings;
  EXPECT_LT(oracle::error(attention(qkv.narrow(0, 3, 2), form, rest), expected.to(at::kCPU, at::kDouble)),
            tolerance({.sums = 2 * sums, .kept = 2}));
}

class DropoutOnEveryBackend : public oracle::OnEverySetting {};

TEST_P(DropoutOnEveryBackend, DropsTheElementsThatTheSpecificationNames) {
  const at::Tensor x = oracle::normal(1, {3, 70, 50}).to(options()).set_requires_grad(true);
  const at::Tensor plain = x.detach().to(at::kCPU, at::kDouble).set_requires_grad(true);
  Pass ours = pass(0.25, key);
  oracle::Dropout dropout_of_oracle{0.25, key};
  for (int place = 0; place < 3; ++place) {
    const at::Tensor out = dropout(x, ours);
    const at::Tensor expected = dropout_of_oracle(plain);
    EXPECT_LT(oracle::error(out, expected), tolerance({}));
    EXPECT_TRUE(out.cpu().eq(0).equal(expected.eq(0)));
    out.sum().backward();
    expected.sum().backward();
  }
  EXPECT_LT(oracle::error(x.grad(), plain.grad()), tolerance({.sums = 3, .kept = 3}));
}

TEST_P(DropoutOnEveryBackend, NumbersTheElementsByTheRowOfTheBatch) {
  const at::Tensor x = oracle::normal(1, {5, 7, 50}).to(options());
  Pass whole = pass(0.25, key), rest = pass(0.25, key);
  rest.training.dropout_key = oracle::key_on(options().device(), key, 3);  // the pass begins with row 3
  for (int place = 0; place < 2; ++place) {
    EXPECT_TRUE(oracle::identical(dropout(x, whole).narrow(0, 3, 2), dropout(x.narrow(0, 3, 2), rest)));
  }
}

TEST_P(DropoutOnEveryBackend, RepeatsWithTheKeyAndKeepsItsShare) {
  const at::Tensor x = at::ones({100, 1000}, options());
  const auto with_key = [&](std::uint64_t this_key) {
    Pass ours = pass(0.25, this_key);
    return dropout(x, ours);
  };
  const at::Tensor first = with_key(1), other = with_key(2), again = with_key(1);
  EXPECT_TRUE(oracle::identical(first, again));
  EXPECT_FALSE(oracle::identical(first, other));
  const double n = 1e5;
  EXPECT_NEAR(first.ne(0).sum().item<double>(), 0.75 * n, 4.0 * std::sqrt(n * 0.25 * 0.75));
  EXPECT_NEAR(first.max().item<double>(), 1.0 / 0.75, tolerance({.kept = 1}) / 0.75);
}

INKLING_ON_SETTINGS_WHERE(DropoutOnEveryBackend, oracle::is_fused);

// Thresholds above a half and odd ones are special there, and so is where one slice ends and the next begins.
TEST(ComposedDropout, DrawsTheSpecifiedNumbersInEverySlice) {
  const at::Tensor x = at::ones({3, 7, 5003});
  for (const double probability : {0.1, 0.2, 0.5, 0.7, 0.8, 0.999}) {
    const DropoutPlace place = {.probability = probability, .key = oracle::key_on(at::kCPU, key, 2), .place = 4};
    const at::Tensor dropped = dropped_elements(x, place).flatten();
    const std::uint64_t stream = mix64(key + 4 * golden_gamma), before = 2 * 7 * 5003;
    for (std::int64_t i = 0; i < dropped.numel(); ++i) {
      const std::uint64_t number = random_bits(stream, before + static_cast<std::uint64_t>(i)) >> 32;
      ASSERT_EQ(dropped.const_data_ptr<bool>()[i], number < dropout_threshold(probability)) << probability << ", " << i;
    }
  }
  EXPECT_GT(x.numel(), 3 * dropout_slice(at::kCPU));
}

// The reference model takes a kernel that does the same, and none that does not.
TEST(ComposedDropout, IsTheFusedKernelsBitForBit) {
  EXPECT_TRUE(drops_as_specified(oracle::emulated_backend(), at::kCPU));
  Backend other = oracle::emulated_backend();
  other.dropout = [](const at::Tensor& x, const DropoutPlace& place) {
    return oracle::emulated_backend().dropout(x, {.probability = place.probability, .key = place.key, .place = 1});
  };
  EXPECT_FALSE(drops_as_specified(other, at::kCPU));
}

TEST(ComposedDropout, ByAKernelLeavesTheReferenceModelsBitsAsTheyAre) {
  const GptShape shape = {.n_layer = 2, .n_head = 2, .n_embd = 16, .block_size = 8, .vocab_size = 20};
  Backend with_kernel = composed_backend();
  with_kernel.dropout = oracle::emulated_backend().dropout;
  const at::Tensor tokens = oracle::tokens(1, {3, 9}, 20);
  std::vector<at::Tensor> losses, gradients;
  for (const Backend& backend : {composed_backend(), with_kernel}) {
    ParameterArena arena(gpt_parameters(shape), at::kCPU, at::kFloat, Gradients::as_weights);
    arena.values().copy_(oracle::normal(2, {arena.size()}, 0.3));
    const auto model = make_reference(shape, arena, backend);
    const TrainingPass training = {.dropout = 0.3, .dropout_key = oracle::key_on(at::kCPU, key)};
    losses.push_back(model->loss(tokens.slice(1, 0, 8), tokens.slice(1, 1), training));
    losses.back().backward();
    gradients.push_back(arena.gradients());
  }
  EXPECT_TRUE(oracle::identical(losses[0], losses[1]));
  EXPECT_TRUE(oracle::identical(gradients[0], gradients[1]));
}

}  // namespace
}  // namespace inkling
