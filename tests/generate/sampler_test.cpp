// One token from logits: each step alone, their order, and the distribution that comes out.
#include "generate/sampler.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "tests/temporary_folder.h"

namespace inkling {
namespace {

constexpr SamplingSettings plain = {.temperature = 1.0};

std::vector<float> logits_of(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

// How often each token comes when `unit` runs evenly over [0, 1).
std::map<Token, double> shares(const std::vector<float>& logits, const SamplingSettings& settings,
                               const std::vector<Token>& context = {}) {
  constexpr int draws = 10'000;
  std::map<Token, double> found;
  for (int i = 0; i < draws; ++i) found[sample_token(logits, context, settings, (i + 0.5) / draws)] += 1.0 / draws;
  return found;
}

void expect_shares(const std::map<Token, double>& found, const std::map<Token, double>& expected) {
  EXPECT_EQ(found.size(), expected.size());
  for (const auto& [token, share] : expected) {
    ASSERT_TRUE(found.contains(token)) << token;
    EXPECT_NEAR(found.at(token), share, 2e-4) << token;
  }
}

TEST(Sampler, DrawsEveryTokenWithItsProbability) {
  expect_shares(shares(logits_of({0.1, 0.2, 0.3, 0.4}), plain), {{0, 0.1}, {1, 0.2}, {2, 0.3}, {3, 0.4}});
}

TEST(Sampler, RandomNumbersOfATextFollowTheDistribution) {
  const std::vector<double> probabilities = {0.5, 0.25, 0.125, 0.0625, 0.0625};
  const std::vector<float> logits = logits_of(probabilities);
  constexpr int draws = 20'000;
  std::vector<int> counts(probabilities.size(), 0);
  const std::uint64_t key = random_key(1, Purpose::sampling, 0);
  for (int i = 0; i < draws; ++i)
    ++counts[sample_token(logits, {}, plain, random_unit(key, static_cast<std::uint64_t>(i)))];
  double chi_squared = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double expected = draws * probabilities[i];
    chi_squared += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  EXPECT_LT(chi_squared, 18.5);  // 4 degrees of freedom: one in a thousand
}

TEST(Sampler, TemperatureSharpensAndFlattens) {
  const std::vector<float> logits = logits_of({0.2, 0.8});
  expect_shares(shares(logits, {.temperature = 0.5}), {{0, 1.0 / 17}, {1, 16.0 / 17}});
  expect_shares(shares(logits, {.temperature = 2.0}), {{0, 1.0 / 3}, {1, 2.0 / 3}});
}

TEST(Sampler, TemperatureZeroTakesTheLikeliestAndOfEqualsTheFirst) {
  for (const double unit : {0.0, 0.5, 0.999999}) {
    EXPECT_EQ(sample_token(std::vector<float>{1, 3, 2}, {}, {.temperature = 0}, unit), 1u);
    EXPECT_EQ(sample_token(std::vector<float>{1, 3, 3}, {}, {.temperature = 0}, unit), 1u);
  }
}

TEST(Sampler, ATinyTemperatureIsNearlyGreedyAndAHugeOneNearlyUniform) {
  expect_shares(shares({1, 3, 2}, {.temperature = 1e-300}), {{1, 1.0}});
  expect_shares(shares({1, 3, 2, 0}, {.temperature = 1e300}), {{0, 0.25}, {1, 0.25}, {2, 0.25}, {3, 0.25}});
}

TEST(Sampler, TopKKeepsTheLikeliestAndOfEqualsTheFirst) {
  expect_shares(shares(logits_of({0.1, 0.2, 0.3, 0.4}), {.temperature = 1, .top_k = 2}), {{2, 3.0 / 7}, {3, 4.0 / 7}});
  expect_shares(shares({5, 5, 5, 5}, {.temperature = 1, .top_k = 3}), {{0, 1.0 / 3}, {1, 1.0 / 3}, {2, 1.0 / 3}});
  expect_shares(shares(logits_of({0.1, 0.9}), {.temperature = 1, .top_k = 1000}), {{0, 0.1}, {1, 0.9}});
}

TEST(Sampler, TopPKeepsTheShortestBeginningThatReachesIt) {
  const std::vector<float> logits = logits_of({0.125, 0.5, 0.25, 0.125});
  expect_shares(shares(logits, {.temperature = 1, .top_p = 0.7}), {{1, 2.0 / 3}, {2, 1.0 / 3}});
  expect_shares(shares(logits, {.temperature = 1, .top_p = 0.76}), {{0, 1.0 / 7}, {1, 4.0 / 7}, {2, 2.0 / 7}});
  expect_shares(shares(logits, {.temperature = 1, .top_p = 1e-12}), {{1, 1.0}});
}

TEST(Sampler, MinPLeavesOutWhatIsFarBelowTheLikeliest) {
  const std::vector<float> logits = logits_of({0.5, 0.3, 0.15, 0.05});
  expect_shares(shares(logits, {.temperature = 1, .min_p = 0.2}), {{0, 0.5 / 0.95}, {1, 0.3 / 0.95}, {2, 0.15 / 0.95}});
  expect_shares(shares(logits, {.temperature = 1, .min_p = 1.0}), {{0, 1.0}});
}

TEST(Sampler, RepetitionPenaltyLowersEachTokenOfTheContextOnce) {
  const std::vector<float> logits = {2, -1, 2, -1};
  const double up = std::exp(2.0), down = std::exp(-1.0), up_penalized = std::exp(1.0), down_penalized = std::exp(-2.0);
  const double total = up + down + up_penalized + down_penalized;
  expect_shares(shares(logits, {.temperature = 1, .repetition_penalty = 2}, {0, 0, 0, 1}),
                {{0, up_penalized / total}, {1, down_penalized / total}, {2, up / total}, {3, down / total}});
  EXPECT_EQ(sample_token(logits, std::vector<Token>{0}, {.temperature = 0, .repetition_penalty = 1.1}, 0), 2u);
}

TEST(Sampler, TopPLooksAtWhatTopKAndTemperatureLeft) {
  // Of {0.4, 0.3, 0.2, 0.1} top-k leaves {4/7, 3/7}: 0.5 is reached by the first alone.
  expect_shares(shares(logits_of({0.4, 0.3, 0.2, 0.1}), {.temperature = 1, .top_k = 2, .top_p = 0.5}), {{0, 1.0}});
  // At temperature 1/2, {0.6, 0.4} is {9/13, 4/13}: 0.65 is reached by the first alone.
  expect_shares(shares(logits_of({0.6, 0.4}), {.temperature = 0.5, .top_p = 0.65}), {{0, 1.0}});
}

TEST(Sampler, TokensWithProbabilityZeroNeverCome) {
  const float never = -std::numeric_limits<float>::infinity();
  expect_shares(shares({never, 0, never, 0, never}, plain), {{1, 0.5}, {3, 0.5}});
  EXPECT_EQ(sample_token(std::vector<float>{never, 0, never}, {}, plain, 1 - 0x1.0p-53), 1u);
}

TEST(Sampler, LogitsThatAreNoNumbersAreRefused) {
  for (const float broken : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const auto error = error_of([&] { sample_token(std::vector<float>{0, broken}, {}, plain, 0.5); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), ErrorKind::diverged);
    EXPECT_NE(error->message().find("earlier checkpoint"), std::string::npos);
  }
}

TEST(Sampler, SettingsThatMeanNothingAreRefusedByTheirFlag) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<std::pair<SamplingSettings, std::string>> refused = {
      {{.temperature = -0.1}, "temperature is"},
      {{.temperature = nan}, "temperature is"},
      {{.temperature = infinity}, "temperature is"},
      {{.top_p = 0}, "top_p is"},
      {{.top_p = 1.01}, "top_p is"},
      {{.top_p = nan}, "top_p is"},
      {{.min_p = -0.01}, "min_p is"},
      {{.min_p = 1.01}, "min_p is"},
      {{.min_p = nan}, "min_p is"},
      {{.repetition_penalty = 0}, "repetition_penalty is"},
      {{.repetition_penalty = nan}, "repetition_penalty is"}};
  for (const auto& [settings, flag] : refused) {
    const auto error = error_of([&, &bad = settings] { check_settings(bad); });
    ASSERT_TRUE(error) << flag;
    EXPECT_EQ(error->message().find(flag), 0u) << error->message();
  }
  EXPECT_FALSE(error_of([] { check_settings(SamplingSettings{.temperature = 0}); }));
}

// Whatever the settings: the token is one that each of them would have kept.
TEST(Sampler, TheTokenIsAmongTheKLikeliest) {
  EXPECT_TRUE(rc::check([] {
    const auto numbers = *rc::gen::nonEmpty(rc::gen::container<std::vector<int>>(rc::gen::inRange(-50, 50)));
    std::vector<float> logits;
    for (const int number : numbers) logits.push_back(static_cast<float>(number) / 8);
    const SamplingSettings settings = {.temperature = *rc::gen::inRange(0, 30) / 10.0,
                                       .top_k = *rc::gen::inRange<std::uint64_t>(0, 10),
                                       .top_p = *rc::gen::inRange(1, 101) / 100.0,
                                       .min_p = *rc::gen::inRange(0, 101) / 100.0};
    const double unit = *rc::gen::inRange(0, 1000) / 1000.0;
    const Token token = sample_token(logits, {}, settings, unit);
    RC_ASSERT(token < logits.size());
    const auto larger = std::count_if(logits.begin(), logits.end(), [&](float x) { return x > logits[token]; });
    if (settings.top_k > 0) RC_ASSERT(static_cast<std::uint64_t>(larger) < settings.top_k);
    if (settings.temperature == 0) RC_ASSERT(larger == 0);
  }));
}

}  // namespace
}  // namespace inkling
