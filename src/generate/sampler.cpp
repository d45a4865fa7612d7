#include "generate/sampler.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/strings.h"

namespace inkling {
namespace {

struct Candidate {
  Token token;
  double value;  // a logit, later exp(logit - largest)
};

bool likelier(const Candidate& a, const Candidate& b) {
  return a.value != b.value ? a.value > b.value : a.token < b.token;
}

std::vector<Candidate> candidates(std::span<const float> logits) {
  std::vector<Candidate> all(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i]) || logits[i] == std::numeric_limits<float>::infinity()) {
      refuse_broken_logits();
    }
    all[i] = {static_cast<Token>(i), static_cast<double>(logits[i])};
  }
  return all;
}

void penalize(std::vector<Candidate>& all, std::span<const Token> context, double penalty) {
  if (penalty == 1.0) return;
  std::vector<bool> done(all.size(), false);
  for (const Token token : context) {
    if (token >= all.size() || done[token]) continue;
    done[token] = true;
    double& logit = all[token].value;
    logit = logit > 0 ? logit / penalty : logit * penalty;
  }
}

void keep_likeliest(std::vector<Candidate>& left, std::uint64_t top_k) {
  if (top_k == 0 || top_k >= left.size()) return;
  const auto end = left.begin() + static_cast<std::ptrdiff_t>(top_k);
  std::nth_element(left.begin(), end, left.end(), likelier);
  left.erase(end, left.end());
}

// LibTorch's exponential takes several at once: of a whole vocabulary in a tenth of std::exp's time.
void exponentiate(std::vector<Candidate>& left, double largest, double temperature) {
  const at::Tensor values = at::empty({static_cast<std::int64_t>(left.size())}, at::kDouble);
  double* value = values.data_ptr<double>();
  // Subtracted before the division, so that no temperature, however small, makes infinity minus infinity of it.
  for (const Candidate& c : left) *value++ = std::min(0.0, (c.value - largest) / temperature);
  values.exp_();
  value = values.data_ptr<double>();
  for (Candidate& c : left) c.value = *value++;
}

double total(const std::vector<Candidate>& left) {
  double sum = 0;
  for (const Candidate& candidate : left) sum += candidate.value;
  return sum;
}

void keep_nucleus(std::vector<Candidate>& left, double top_p) {
  if (top_p >= 1.0) return;
  std::sort(left.begin(), left.end(), likelier);
  const double wanted = top_p * total(left);
  double sum = 0;
  std::size_t count = 0;
  while (count < left.size() && sum < wanted) sum += left[count++].value;
  left.resize(std::max<std::size_t>(count, 1));
}

Token draw(std::vector<Candidate>& left, double unit) {
  const auto by_token = [](const Candidate& a, const Candidate& b) { return a.token < b.token; };
  if (!std::is_sorted(left.begin(), left.end(), by_token)) std::sort(left.begin(), left.end(), by_token);
  const double wanted = unit * total(left);
  double sum = 0;
  const Candidate* last_possible = nullptr;  // rounding may leave the sum a hair below `wanted`
  for (const Candidate& candidate : left) {
    if (candidate.value <= 0) continue;
    sum += candidate.value;
    last_possible = &candidate;
    if (sum > wanted) break;
  }
  return last_possible->token;
}

[[noreturn]] void refuse(std::string_view flag, double value, std::string_view allowed) {
  throw Error::input(str(flag, " is ", value, " and must be ", allowed));
}

}  // namespace

void check_settings(const SamplingSettings& settings) {
  const auto finite = [](double value) { return std::isfinite(value); };
  if (!finite(settings.temperature) || settings.temperature < 0) {
    refuse("--temperature", settings.temperature, "0 (always the likeliest token) or above");
  }
  if (!(settings.top_p > 0 && settings.top_p <= 1)) refuse("--top-p", settings.top_p, "above 0 and at most 1 (off)");
  if (!(settings.min_p >= 0 && settings.min_p <= 1)) refuse("--min-p", settings.min_p, "from 0 (off) to 1");
  if (!finite(settings.repetition_penalty) || settings.repetition_penalty <= 0) {
    refuse("--repetition-penalty", settings.repetition_penalty, "above 0; 1 is off, 1.1 is mild");
  }
}

void refuse_broken_logits() {
  throw Error::input(
      "the model's answer is not a number: its training diverged or its weights are damaged; "
      "try an earlier checkpoint");
}

Token sample_token(std::span<const float> logits, std::span<const Token> context, const SamplingSettings& settings,
                   double unit) {
  std::vector<Candidate> left = candidates(logits);
  penalize(left, context, settings.repetition_penalty);
  const Candidate likeliest = *std::min_element(left.begin(), left.end(), likelier);
  if (settings.temperature == 0) return likeliest.token;
  keep_likeliest(left, settings.top_k);
  exponentiate(left, likeliest.value, settings.temperature);
  keep_nucleus(left, settings.top_p);
  std::erase_if(left, [&](const Candidate& c) { return c.value < settings.min_p; });
  return draw(left, unit);
}

}  // namespace inkling
