#include "recipe/law.h"

#include <algorithm>
#include <cmath>

namespace inkling::recipe {
namespace {

// The fit, by benchmarks/recipes fit.
constexpr double parameter_share = 0.654, parameter_exponent = 0.333, text_exponent = 0.466,
                 vocabulary_exponent = 0.0239, context_exponent = 0.0621, repeats_worth = 0.22, steps_lost = 10.8,
                 depth_exponent = 1.26, learning_exponent = 0.617, scale = 0.823, curve_exponent = 1.21;

// The same for texts that are spelled by characters or bytes, where it is another: what is seen again is worth as much
// as what is new, but for what the weights learn by heart of it.
constexpr double parameter_share_by_characters = 2, scale_by_characters = 0.121, by_heart = 0.00452;

// Between these lie the curves of texts that are not overfitted at once.
constexpr double usual_curve = 0.7, least_curve = 0.4, most_curve = 1.0;

// A context of fewer tokens costs so many bits each time it is halved. (The small runs have half of the usual one,
// which the fit has in it.)
constexpr double usual_context = 256, halved_context_costs = 0.05;

// How much text so many epochs are worth, in epochs: text that is seen again is worth less each time (Muennighoff et
// al. 2023, equation 5).
double effective_epochs(double epochs) {
  return epochs <= 1 ? epochs : 1 + repeats_worth * (1 - std::exp((1 - epochs) / repeats_worth));
}

// What is left to learn, up to a factor and a summand that are the text's: of too few weights, and of too little text
// (after Hoffmann et al. 2022, equation 10) and too few steps.
double left_to_learn(const Hardness& text, const Planned& run) {
  const double seen_times = epochs(text, run);
  const bool learned = run.vocabulary.kind == TokenizerKind::bpe;
  const double seen = text.training_bytes * (learned ? effective_epochs(seen_times) : seen_times);
  const double tokens = text.training_bytes / run.vocabulary.bytes_per_token;
  const double heart = learned ? 0 : by_heart * std::max(0.0, seen_times - 1) * run.parameters / tokens;
  const double share = learned ? parameter_share : parameter_share_by_characters;
  const double denser = run.vocabulary.bytes_per_token / text.tried_out.vocabulary.bytes_per_token;
  const double size = static_cast<double>(run.vocabulary.size), larger = (learned ? size : std::max(size, 512.0)) / 512;
  const double lost =
      steps_lost * std::pow(run.layers, depth_exponent) * std::pow(larger, learning_exponent) / run.steps;
  return share * std::pow(run.parameters / 1e5, -parameter_exponent) * std::pow(denser, -context_exponent) +
         std::pow(seen / 1e6, -text_exponent) * std::pow(larger, vocabulary_exponent) * (1 + lost) + heart;
}

}  // namespace

double expected_bits(const Hardness& text, const Planned& run) {
  const double curve = std::clamp(text.curve(), least_curve, most_curve);
  const bool learned = run.vocabulary.kind == TokenizerKind::bpe;
  const double slope = (learned ? scale : scale_by_characters) * std::pow(curve / usual_curve, curve_exponent);
  const double halvings = std::max(0.0, std::log2(usual_context / run.block_size));
  const double tried_out = std::max(text.bits.back(), 1e-6);
  const double less = left_to_learn(text, run) - left_to_learn(text, text.tried_out) + halvings * halved_context_costs;
  return tried_out * std::exp(slope * less / tried_out);  // never below zero, however easy the text is
}

double epochs(const Hardness& text, const Planned& run) {
  return run.tokens_per_step * run.steps * run.vocabulary.bytes_per_token / text.training_bytes;
}

double peak_rate(const Planned& run) { return 0.018 * std::sqrt(run.tokens_per_step / run.steps); }

double weight_decay_for(double epochs) { return epochs < 3 ? 0.1 : 0.3; }

double rate_on(std::int64_t n_embd) {
  const double times_wider = static_cast<double>(n_embd) / 128;
  return 3e-3 / (times_wider * times_wider);
}

double rounded_to(double value, double ratio) { return std::pow(ratio, std::round(std::log(value) / std::log(ratio))); }

double two_digits(double value) {
  const double scale = std::pow(10.0, 1 - std::floor(std::log10(value)));
  return std::round(value * scale) / scale;  // a quotient of whole numbers, which prints as two digits
}

double dropout_for(double epochs) {
  if (epochs < 6) return 0.0;
  return std::clamp(std::round(std::log2(epochs / 3)), 1.0, 5.0) / 10;  // prints as one digit
}

}  // namespace inkling::recipe
