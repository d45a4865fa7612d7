#include "recipe/law.h"

#include <algorithm>
#include <cmath>

namespace inkling::recipe {
namespace {

// The fit, by benchmarks/recipes fit.
constexpr double parameter_share = 2.223, parameter_exponent = 0.159, token_exponent = 0.687,
                 vocabulary_exponent = -0.021, context_exponent = -0.09, repeats_worth = 0.368, steps_lost = 91.3,
                 depth_exponent = 0.218, scale = 0.419;

// A context of fewer tokens costs so many bits each time it is halved. (The small run has half of the usual one, which
// its own fit has in it.)
constexpr double usual_context = 256, halved_context_costs = 0.05;

// Tokens that are seen again are worth less each time (Muennighoff et al. 2023, equation 5).
double effective_tokens(double tokens, double unique) {
  const double repeats = tokens / unique - 1;
  return repeats <= 0 ? tokens : unique * (1 + repeats_worth * (1 - std::exp(-repeats / repeats_worth)));
}

// What is left to learn, up to a factor and a summand that are the text's: of too few weights, and of too few tokens
// and steps (after Hoffmann et al. 2022, equation 10).
double left_to_learn(const Hardness& text, const Planned& run, double bytes_per_token_tried_out) {
  const double tokens =
      effective_tokens(run.tokens_per_step * run.steps, text.training_bytes / run.vocabulary.bytes_per_token);
  return parameter_share * std::pow(run.parameters / 1e5, -parameter_exponent) *
             std::pow(run.vocabulary.bytes_per_token / bytes_per_token_tried_out, -context_exponent) +
         std::pow(tokens / 1e6, -token_exponent) *
             std::pow(static_cast<double>(run.vocabulary.size) / 512, vocabulary_exponent) *
             (1 + steps_lost * std::pow(run.layers, depth_exponent) / run.steps);
}

}  // namespace

double epochs(const Hardness& text, const Planned& run) {
  return run.tokens_per_step * run.steps * run.vocabulary.bytes_per_token / text.training_bytes;
}

double expected_bits(const Hardness& text, const Planned& run) {
  const double here = left_to_learn(text, run, text.tried_out.vocabulary.bytes_per_token);
  const double there = left_to_learn(text, text.tried_out, text.tried_out.vocabulary.bytes_per_token);
  const double shorter = std::log2(usual_context / run.block_size);
  return text.bits + scale * (here - there) + std::max(0.0, shorter) * halved_context_costs;
}

double peak_rate(const Planned& run) { return 0.018 * std::sqrt(run.tokens_per_step / run.steps); }

double dropout_for(double epochs) {
  if (epochs < 6) return 0.0;
  return std::clamp(0.1 * std::round(std::log2(epochs / 3)), 0.1, 0.5);
}

}  // namespace inkling::recipe
