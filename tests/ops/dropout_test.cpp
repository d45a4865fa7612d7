// Dropout is a function of (key, place): the oracle draws the same numbers from the specification.
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>

#include <cmath>

#include "ops/attention.h"
#include "ops/dropout.h"
#include "tests/oracle/ops.h"
#include "tests/oracle/tensors.h"
#include "tests/oracle/tolerances.h"

namespace inkling {
namespace {

constexpr std::uint64_t key = random_key(5, Purpose::dropout, 17);

Context dropping(double probability, Kernels kernels = Kernels::fused) {
  return {.kernels = kernels, .dropout = probability, .dropout_key = key};
}

TEST(Dropout, IsTheIdentityOutsideTraining) {
  const at::Tensor x = oracle::normal(1, {4, 5}).to(at::kFloat);
  Context ours = dropping(0.0);
  EXPECT_TRUE(dropout(x, ours).is_same(x));
  EXPECT_EQ(ours.dropout_site, 0u);
}

TEST(Dropout, DoesNotDependOnTheNumberOfThreads) {
  const at::Tensor x = oracle::normal(1, {200, 200}).to(at::kFloat);
  const auto with_threads = [&](int threads) {
    at::set_num_threads(threads);
    Context ours = dropping(0.5);
    return dropout(x, ours);
  };
  EXPECT_TRUE(oracle::identical(with_threads(1), with_threads(3)));
}

TEST(AttentionDropout, FallsOnTheProbabilities) {
  for (const Kernels kernels : {Kernels::fused, Kernels::reference}) {
    const at::Tensor qkv = oracle::normal(1, {2, 33, 72}).to(at::kFloat).set_requires_grad(true);
    const at::Tensor plain = qkv.detach().to(at::kDouble).set_requires_grad(true);
    Context ours = dropping(0.2, kernels);
    oracle::Dropout dropout_of_oracle{0.2, key};
    const at::Tensor out = causal_attention(qkv, 3, ours);
    const at::Tensor expected = oracle::causal_attention(plain, 3, dropout_of_oracle);
    // Heads of 8, 33 keys, scores of standard deviation 1; backward, twice as much.
    const double roundings = oracle::in_softmax(8, 2.0) + 33 + oracle::function_roundings;
    EXPECT_LT(oracle::error(out, expected), oracle::rounding_error(roundings));
    const at::Tensor upstream = oracle::normal(2, expected.sizes());
    out.backward(upstream.to(at::kFloat));
    expected.backward(upstream);
    EXPECT_LT(oracle::error(qkv.grad(), plain.grad()), oracle::rounding_error(2 * roundings + 33 + 8));
  }
}

// cuDNN's attention would train with 3/16 where 0.2 is asked for.
TEST(AttentionDropout, IsLeftToCudnnOnlyInSixteenths) {
  for (const double exact : {0.0, 0.0625, 0.25, 0.5}) EXPECT_TRUE(cudnn_attends(64, exact)) << exact;
  for (const double rounded : {0.1, 0.2, 0.3, 1.0 / 32}) EXPECT_FALSE(cudnn_attends(64, rounded)) << rounded;
  EXPECT_FALSE(cudnn_attends(1, 0.0));
}

class DropoutOnEverySetting : public oracle::OnEverySetting {};

class OurDropout : public DropoutOnEverySetting {};

TEST_P(OurDropout, DropsTheElementsThatTheSpecificationNames) {
  const at::Tensor x = oracle::normal(1, {3, 70, 50}).to(options()).set_requires_grad(true);
  const at::Tensor plain = x.detach().to(at::kCPU, at::kDouble).set_requires_grad(true);
  Context ours = with_dropout(0.25, key);
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

// Where LibTorch draws the numbers, its generator is set from the key.
TEST_P(DropoutOnEverySetting, RepeatsWithTheKeyAndKeepsItsShare) {
  const at::Tensor x = at::ones({100, 1000}, options());
  const auto with_key = [&](std::uint64_t this_key) {
    Context ours = with_dropout(0.25, this_key);
    seed_dropout(options().device(), ours);
    return dropout(x, ours);
  };
  const at::Tensor first = with_key(1), other = with_key(2), again = with_key(1);
  EXPECT_TRUE(oracle::identical(first, again));
  EXPECT_FALSE(oracle::identical(first, other));
  const double n = 1e5;
  EXPECT_NEAR(first.ne(0).sum().item<double>(), 0.75 * n, 4.0 * std::sqrt(n * 0.25 * 0.75));
  EXPECT_NEAR(first.max().item<double>(), 1.0 / 0.75, tolerance({.kept = 1}) / 0.75);
}

INKLING_ON_EVERY_SETTING(DropoutOnEverySetting);
INKLING_ON_SETTINGS_WHERE(OurDropout, [](const oracle::Setting& setting) {
  return oracle::is_fused(setting) || oracle::numbers_are_ours(setting);
});

}  // namespace
}  // namespace inkling
