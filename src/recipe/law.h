// What is known of losses before training: how they fall with the size of a model, the tokens that it sees and how
// often it sees them. The numbers are a fit to the runs in benchmarks/recipe_runs.csv, made by benchmarks/recipes fit.
#pragma once

#include <cstdint>
#include <optional>

#include "config/tokenizer_settings.h"

namespace inkling::recipe {

// How far what comes may lie from what is expected, as a share, for most texts that the law was not fitted to.
inline constexpr double law_spread = 0.1;

// Weights of the blocks times tokens seen: the most of any run that the law was fitted to.
inline constexpr double largest_fitted = 1.27e13;

// How a tokenizer spells the text.
struct Vocabulary {
  TokenizerKind kind = TokenizerKind::bpe;
  std::uint64_t size = 512;
  double bytes_per_token = 1;
};

// What decides how well a run does.
struct Planned {
  Vocabulary vocabulary;
  double layers = 1, parameters = 0;  // these of the blocks' matrices, without embeddings and head
  double tokens_per_step = 0, steps = 0, block_size = 0;
};

// What a small model, always the same, makes of the text in so many steps tells how hard it is, and what it makes of a
// larger vocabulary in fewer steps what more tokens are worth.
inline constexpr std::int64_t steps_tried_out = 900, fewer_steps_tried_out = 300;
inline constexpr std::uint64_t vocab_size_tried_out = 512, larger_vocab_size_tried_out = 2048;

// How hard a text is, and how much of it there is.
struct Hardness {
  Planned tried_out;  // the small model's run
  double bits = 0;    // per byte of the tail, which it came to
  // What the larger vocabulary came to, as a share of what the smaller one did in as many steps: 0.97 of plays, 0.85 of
  // tables of numbers. None where a text was not spelled by both.
  std::optional<double> by_more_tokens = {};
  double training_bytes = 0;
  double bytes_per_character = 1;  // of the tail: what a loss falls by is the same in bits per character for most texts
};

// Returns the bits per byte that are expected of the tail.
double expected_bits(const Hardness& text, const Planned& run);

// Muon's peak learning rate; those of AdamW's groups are in proportion to it.
double peak_rate(const Planned& run);

// AdamW's peak learning rate for a model that is there already, of so many channels: between what was best for one of
// 128 (docs/benchmarks/recipes_*.md), which narrower ones get too, and what is usual for GPT-2's 768.
double rate_on(std::int64_t n_embd);

// model.dropout, in twentieths: more of it the more often the text is seen, and the more weights there are to learn it
// by heart.
double dropout_for(const Hardness& text, const Planned& run);

// optimizer.muon.weight_decay of a text that is seen so often.
double weight_decay_for(double epochs);

// How often the training text is seen.
double epochs(const Hardness& text, const Planned& run);

// Returns the nearest power of `ratio`: two measurements of one machine mostly agree then.
double rounded_to(double value, double ratio);

// Returns the nearest number of two digits, as people write them.
double two_digits(double value);

}  // namespace inkling::recipe
