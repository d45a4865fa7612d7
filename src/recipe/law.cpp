#include "recipe/law.h"

#include <algorithm>
#include <cmath>

namespace inkling::recipe {
namespace {

// The fit, by benchmarks/recipes fit.
constexpr double parameter_share = 0.877, parameter_exponent = 0.615, token_exponent = 0.543,
                 vocabulary_exponent = 0.006, context_exponent = 0.324, repeats_worth = 0.443, steps_lost = 28.631,
                 depth_exponent = 0.826, learning_exponent = 0.283, scale = 0.380, curve_exponent = 1.318;

// Between these lie the curves of texts that are not overfitted at once.
constexpr double usual_curve = 0.7, least_curve = 0.4, most_curve = 1.0;

// A context of fewer tokens costs so many bits each time it is halved. (The small runs have half of the usual one,
// which the fit has in it.)
constexpr double usual_context = 256, halved_context_costs = 0.05;

// Tokens that are seen again are worth less each time (Muennighoff et al. 2023, equation 5).
double effective_tokens(double tokens, double unique) {
  const double repeats = tokens / unique - 1;
  return repeats <= 0 ? tokens : unique * (1 + repeats_worth * (1 - std::exp(-repeats / repeats_worth)));
}

// What is left to learn, up to a factor and a summand that are the text's: of too few weights, and of too few tokens
// (after Hoffmann et al. 2022, equation 10) and steps.
double left_to_learn(const Hardness& text, const Planned& run) {
  const double unique = text.training_bytes / run.vocabulary.bytes_per_token;
  const double tokens = effective_tokens(run.tokens_per_step * run.steps, unique);
  const double denser = run.vocabulary.bytes_per_token / text.tried_out.vocabulary.bytes_per_token;
  const double larger = static_cast<double>(run.vocabulary.size) / 512;
  const double lost =
      steps_lost * std::pow(run.layers, depth_exponent) * std::pow(larger, learning_exponent) / run.steps;
  return parameter_share * std::pow(run.parameters / 1e5, -parameter_exponent) * std::pow(denser, -context_exponent) +
         std::pow(tokens / 1e6, -token_exponent) * std::pow(larger, vocabulary_exponent) * (1 + lost);
}

}  // namespace

double epochs(const Hardness& text, const Planned& run) {
  return run.tokens_per_step * run.steps * run.vocabulary.bytes_per_token / text.training_bytes;
}

double expected_bits(const Hardness& text, const Planned& run) {
  const double curve = std::clamp(text.curve(), least_curve, most_curve);
  const double slope = scale * std::pow(curve / usual_curve, curve_exponent);
  const double halvings = std::max(0.0, std::log2(usual_context / run.block_size));
  return text.bits.back() + slope * (left_to_learn(text, run) - left_to_learn(text, text.tried_out)) +
         halvings * halved_context_costs;
}

double peak_rate(const Planned& run) { return 0.018 * std::sqrt(run.tokens_per_step / run.steps); }

double dropout_for(double epochs) {
  if (epochs < 6) return 0.0;
  return std::clamp(0.1 * std::round(std::log2(epochs / 3)), 0.1, 0.5);
}

}  // namespace inkling::recipe
