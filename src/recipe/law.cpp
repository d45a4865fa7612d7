#include "recipe/law.h"

#include <algorithm>
#include <cmath>

namespace inkling::recipe {
namespace {

// The law as benchmarks/recipes fit prints it. (What steps cost by characters is an earlier fit's.)
struct Law {
  double parameter_share, parameter_exponent, text_exponent, scale;
  double by_heart;  // what the weights learn by heart of a text that they see again
  double steps_lost, depth_exponent, width_exponent;
};
constexpr Law of_learned_tokens = {0.125, 0.743, 0.0723, 3.24, 0.000987, 0.305, 2.41, 1.15},
              of_characters = {1.08, 0.476, 0.211, 0.277, 0.00191, 8.884, 1.334, 0};
// Of learned tokens alone:
constexpr double vocabulary_exponent = 0.0317, density_exponent = 0.0683, repeats_worth = 0.819,
                 learning_exponent = 0.328, more_tokens_worth = 1.03, usual_by_more_tokens = 0.989;

bool is_learned(const Vocabulary& vocabulary) { return vocabulary.kind == TokenizerKind::bpe; }

const Law& law_of(const Vocabulary& vocabulary) { return is_learned(vocabulary) ? of_learned_tokens : of_characters; }

// A context of fewer tokens costs so many bits per character each time it is halved. (The small runs have half of the
// usual one, which the fit has in it.)
constexpr double usual_context = 256, halved_context_costs = 0.05;

// How much text so many epochs are worth, in epochs: text that is seen again is worth less each time (Muennighoff et
// al. 2023, equation 5).
double effective_epochs(double epochs) {
  return epochs <= 1 ? epochs : 1 + repeats_worth * (1 - std::exp((1 - epochs) / repeats_worth));
}

// What is left to learn, up to a factor and a summand that are the text's: of too few weights, and of too little text
// (after Hoffmann et al. 2022, equation 10) and too few steps.
double left_to_learn(const Hardness& text, const Planned& run) {
  const Law& law = law_of(run.vocabulary);
  const bool learned = is_learned(run.vocabulary);
  const double times = epochs(text, run), tokens = text.training_bytes / run.vocabulary.bytes_per_token;
  const double seen = text.training_bytes * (learned ? effective_epochs(times) : times);
  const double larger = learned ? static_cast<double>(run.vocabulary.size) / vocab_size_tried_out : 1;
  const double denser = run.vocabulary.bytes_per_token / text.tried_out.vocabulary.bytes_per_token;
  const double width = std::sqrt(run.parameters / (12 * run.layers));
  const double lost = law.steps_lost * std::pow(run.layers, law.depth_exponent) *
                      std::pow(width / 128, law.width_exponent) * std::pow(larger, learning_exponent) / run.steps;
  return law.parameter_share * std::pow(run.parameters / 1e5, -law.parameter_exponent) *
             std::pow(denser, density_exponent) +
         std::pow(seen / 1e6, -law.text_exponent) * std::pow(larger, vocabulary_exponent) * (1 + lost) +
         law.by_heart * std::max(0.0, times - 1) * run.parameters / tokens;
}

// By how much a vocabulary lowers the loss of this text more than that of most, as a logarithm. What still larger ones
// than were tried out add is not counted on.
double of_more_tokens(const Hardness& text, const Vocabulary& vocabulary) {
  if (!is_learned(vocabulary) || !text.by_more_tokens) return 0;
  constexpr double least = vocab_size_tried_out, most = larger_vocab_size_tried_out;
  const double share = std::log(std::min(static_cast<double>(vocabulary.size), most) / least) / std::log(most / least);
  return more_tokens_worth * share * std::log(*text.by_more_tokens / usual_by_more_tokens);
}

}  // namespace

double expected_bits(const Hardness& text, const Planned& run) {
  const double halvings = std::max(0.0, std::log2(usual_context / run.block_size));
  const double tried_out = std::max(text.bits, 1e-6);
  const double less = left_to_learn(text, run) - left_to_learn(text, text.tried_out);
  const double per_character = law_of(run.vocabulary).scale * less + halvings * halved_context_costs;
  // never below zero, however easy the text is
  return tried_out *
         std::exp(per_character / (tried_out * text.bytes_per_character) + of_more_tokens(text, run.vocabulary));
}

double epochs(const Hardness& text, const Planned& run) {
  return run.tokens_per_step * run.steps * run.vocabulary.bytes_per_token / text.training_bytes;
}

double peak_rate(const Planned& run) { return 0.018 * std::sqrt(run.tokens_per_step / run.steps); }

double weight_decay_for(double epochs) { return epochs < 3 ? 0.1 : 0.3; }

double rate_on(std::int64_t n_embd) {
  const double times_wider = static_cast<double>(n_embd) / 128;
  return 3e-3 / std::max(1.0, times_wider * times_wider);
}

double rounded_to(double value, double ratio) { return std::pow(ratio, std::round(std::log(value) / std::log(ratio))); }

double two_digits(double value) {
  const double scale = std::pow(10.0, 1 - std::floor(std::log10(value)));
  return std::round(value * scale) / scale;  // a quotient of whole numbers, which prints as two digits
}

double dropout_for(const Hardness& text, const Planned& run) {
  constexpr double most_weights_tried = 16;  // for each token of the text
  const double tokens = text.training_bytes / run.vocabulary.bytes_per_token;
  const double weights = std::min(run.parameters / tokens, most_weights_tried);
  const double doublings = std::log2(epochs(text, run) * std::sqrt(weights) / 5.6);
  return std::clamp(std::round(2 * doublings), 0.0, 10.0) / 20;
}

}  // namespace inkling::recipe
