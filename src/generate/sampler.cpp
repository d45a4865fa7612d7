#include "generate/sampler.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/strings.h"
#include "model/model.h"

namespace inkling {
namespace {

// A number per token: first its penalized logit, in double, then its weight, 0 if it may no longer be drawn.
using Values = std::vector<double>;

Values checked(std::span<const float> logits) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const bool broken = std::any_of(logits.begin(), logits.end(), [](float logit) { return !(logit < infinity); });
  if (broken) refuse_broken_answer();
  return {logits.begin(), logits.end()};
}

void penalize(Values& logits, std::span<const Token> context, double penalty) {
  if (penalty == 1.0) return;
  std::vector<bool> done(logits.size(), false);
  for (const Token token : context) {
    if (token >= logits.size() || done[token]) continue;
    done[token] = true;
    double& logit = logits[token];
    logit = logit > 0 ? logit / penalty : logit * penalty;
  }
}

// Returns the token with the largest logit; among equals the lowest.
Token likeliest(const Values& logits) {
  double largest = -std::numeric_limits<double>::infinity();
#pragma omp simd reduction(max : largest)
  for (std::size_t i = 0; i < logits.size(); ++i) largest = std::max(largest, logits[i]);
  return static_cast<Token>(std::find(logits.begin(), logits.end(), largest) - logits.begin());
}

struct Likelier {
  const Values& values;
  bool operator()(Token a, Token b) const { return values[a] != values[b] ? values[a] > values[b] : a < b; }
};

std::vector<Token> all_tokens(const Values& values) {
  std::vector<Token> tokens(values.size());
  std::iota(tokens.begin(), tokens.end(), Token{0});
  return tokens;
}

void forbid(Values& weights, std::span<const Token> tokens) {
  for (const Token token : tokens) weights[token] = 0;
}

// exp((logit - largest) / temperature). LibTorch's exponential takes several at once: a tenth of std::exp's time.
Values weights_of(const Values& logits, double largest, double temperature) {
  Values weights = logits;
  // It subtracts before it divides, so that no temperature, however small, makes infinity minus infinity of it.
  for (double& weight : weights) weight = std::min(0.0, (weight - largest) / temperature);
  at::from_blob(weights.data(), {static_cast<std::int64_t>(weights.size())}, at::kDouble).exp_();
  return weights;
}

// Returns the sums of `block` weights each, and of the rest: additions that need not wait for each other.
constexpr std::size_t block = 256;
Values block_sums(const Values& weights) {
  Values sums;
  for (std::size_t first = 0; first < weights.size(); first += block) {
    const std::size_t end = std::min(first + block, weights.size());
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::size_t i = first; i < end; ++i) sum += weights[i];
    sums.push_back(sum);
  }
  return sums;
}

double total(const Values& sums) { return std::accumulate(sums.begin(), sums.end(), 0.0); }

void keep_likeliest(Values& weights, const Values& logits, std::uint64_t top_k) {
  if (top_k == 0 || top_k >= logits.size()) return;
  std::vector<Token> tokens = all_tokens(logits);
  std::nth_element(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(top_k), tokens.end(), Likelier{logits});
  forbid(weights, std::span(tokens).subspan(top_k));
}

void keep_nucleus(Values& weights, double top_p) {
  if (top_p >= 1.0) return;
  const double wanted = top_p * total(block_sums(weights));
  std::vector<Token> tokens = all_tokens(weights);
  std::sort(tokens.begin(), tokens.end(), Likelier{weights});
  double sum = 0;
  std::size_t count = 0;
  while (count < tokens.size() && sum < wanted) sum += weights[tokens[count++]];
  forbid(weights, std::span(tokens).subspan(std::max<std::size_t>(count, 1)));
}

void keep_probable(Values& weights, double min_p) {
  if (min_p == 0.0) return;
  for (double& weight : weights) weight = weight < min_p ? 0 : weight;
}

Token draw(const Values& weights, double unit) {
  const Values sums = block_sums(weights);
  const double wanted = unit * total(sums);
  double sum = 0;
  std::size_t passed = 0;  // blocks
  while (passed + 1 < sums.size() && sum + sums[passed] <= wanted) sum += sums[passed++];
  const std::size_t end = std::min((passed + 1) * block, weights.size());
  for (std::size_t i = passed * block; i < end; ++i) {
    if (weights[i] > 0 && (sum += weights[i]) > wanted) return static_cast<Token>(i);
  }
  std::size_t last_possible = end - 1;  // rounding has left the sum a hair below `wanted`
  while (weights[last_possible] <= 0) --last_possible;
  return static_cast<Token>(last_possible);
}

[[noreturn]] void refuse(std::string_view name, double value, std::string_view allowed) {
  throw Error::input(str(name, " is ", value, " and must be ", allowed));
}

}  // namespace

void check_settings(const SamplingSettings& settings) {
  const auto finite = [](double value) { return std::isfinite(value); };
  if (!finite(settings.temperature) || settings.temperature < 0) {
    refuse("temperature", settings.temperature, "0 (always the likeliest token) or above");
  }
  if (!(settings.top_p > 0 && settings.top_p <= 1)) refuse("top_p", settings.top_p, "above 0 and at most 1 (off)");
  if (!(settings.min_p >= 0 && settings.min_p <= 1)) refuse("min_p", settings.min_p, "from 0 (off) to 1");
  if (!finite(settings.repetition_penalty) || settings.repetition_penalty <= 0) {
    refuse("repetition_penalty", settings.repetition_penalty, "above 0; 1 is off, 1.1 is mild");
  }
}

Token sample_token(std::span<const float> logits, std::span<const Token> context, const SamplingSettings& settings,
                   double unit) {
  Values values = checked(logits);
  penalize(values, context, settings.repetition_penalty);
  const Token first = likeliest(values);
  if (settings.temperature == 0) return first;
  Values weights = weights_of(values, values[first], settings.temperature);
  keep_likeliest(weights, values, settings.top_k);
  keep_nucleus(weights, settings.top_p);
  keep_probable(weights, settings.min_p);
  return draw(weights, unit);
}

}  // namespace inkling
