// What is known of losses before training: how they fall with the size of a model, the tokens that it sees and how
// often it sees them. The numbers are a fit to the runs in benchmarks/recipe_runs.csv, made by benchmarks/recipes fit.
#pragma once

#include <cstdint>

#include "config/tokenizer_settings.h"

namespace inkling::recipe {

// How far what comes may lie from what is expected, as a share.
inline constexpr double law_spread = 0.05;

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

// How hard a text is, told by a small run on it, and how much of it there is.
struct Hardness {
  Planned tried_out;  // that run
  double bits = 0;    // per byte of the tail, which it came to
  double training_bytes = 0;
};

// Returns the bits per byte that are expected of the tail.
double expected_bits(const Hardness& text, const Planned& run);

// Muon's peak learning rate; those of AdamW's groups are in proportion to it.
double peak_rate(const Planned& run);

// model.dropout of a text that is seen so often.
double dropout_for(double epochs);

// How often the training text is seen.
double epochs(const Hardness& text, const Planned& run);

}  // namespace inkling::recipe
