// What a model thinks of given tokens: -log p of each, given those before it. Every evaluation rests on this.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "formats/token_file.h"
#include "model/model.h"

namespace inkling {

// Tokens that the model sees together: at most block_size + 1. Those behind the first `given` (at least one) are
// scored, each given all before it.
struct Passage {
  std::vector<Token> tokens;
  std::size_t given = 1;

  std::size_t scored() const { return tokens.size() - given; }
};

// What was scored in one go: a window of text, a story, a document, an ending.
struct ScoredPiece {
  double nats = 0;           // sum of -log p over its tokens
  std::uint64_t tokens = 0;  // how many were scored
};

// Throws Error diverged where nats, or a mean of them, are NaN or infinite. `of` says what they were scored on:
// "questions.jsonl:3". (While a model trains such a loss is logged, and training goes on.)
void require_number(double nats, std::string_view of);

// Returns how many passages of so many positions are computed together: as many as the processor's caches, or 1/64 of a
// GPU's memory, hold logits and one layer at work for, and 64 at most.
std::size_t passages_together(const Model& model, const Runtime& runtime, std::int64_t positions);

// Returns how many tokens of passages are worth having at hand, so that those of similar lengths are computed together.
std::size_t tokens_of_pool(const Model& model, const Runtime& runtime);

// Scores passages batch by batch, in the order in which they come. Throws Stopped (base/stop_signals.h) in front of a
// batch, once a stop was requested.
class PassageScorer {
 public:
  PassageScorer(const Model& model, const Runtime& runtime);

  // Adds one to the batch, which is computed when it holds as many as its first passage said (`together`, at least 1).
  void add(Passage passage, std::size_t together);
  // Computes what is left and returns what was scored, in the order of add(). A GPU is waited for here alone.
  std::vector<ScoredPiece> finish();

 private:
  void compute();

  const Model& model_;
  const Runtime& runtime_;
  std::vector<Passage> batch_;
  std::size_t together_ = 1;
  std::vector<at::Tensor> nats_;  // of each batch, on the model's device
  std::vector<ScoredPiece> scored_;
};

// Scores passages that are in memory; piece i is that of passages[i]. Those of similar lengths are computed together,
// so that little is padded.
std::vector<ScoredPiece> score_passages(const Model& model, const Runtime& runtime, std::span<const Passage> passages);

// The sum of x over the sum of tokens, and its standard error over pieces (the ratio estimator; Cochran 1977, chapter
// 6), because tokens of one piece are not independent. The error is NaN for one piece.
struct Ratio {
  double value = 0, standard_error = 0;
};
Ratio ratio(const std::vector<double>& x, const std::vector<ScoredPiece>& pieces);
Ratio loss_of(const std::vector<ScoredPiece>& pieces);  // x is the nats

}  // namespace inkling
