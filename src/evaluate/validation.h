// The loss on the validation split, every token exactly once, and how near it is to the best possible one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/validation_bound.h"
#include "evaluate/score.h"
#include "model/model.h"

namespace inkling {

// Scores `sequence` in windows of block_size (evaluate/score.h) and returns it in pieces of block_size tokens. Takes
// at most the first `limit` windows; 0 means all. By default the windows lie back to back. (The loss of nanoGPT's
// models is comparable when it is taken over the whole split like this.) With a separator each document is cut into
// windows for itself: its tokens see none before the separator that it begins with, and the one behind it is scored as
// its end. Throws Error input for a stride out of its range.
std::vector<ScoredPiece> score_windows(const Model& model, const Runtime& runtime, const TokenSequence& sequence,
                                       std::uint64_t limit = 0, std::optional<std::int64_t> stride = {},
                                       std::optional<Token> separator = {});

// Scores each story alone, from its beginning: position 0 holds the separator, the targets are the story's tokens and
// the separator after it. stories[k].tokens (separator included) says where each ends. Stories may have different
// lengths; throws Error internal for one of more than block_size tokens.
std::vector<ScoredPiece> score_stories(const Model& model, const Runtime& runtime, const TokenSequence& sequence,
                                       Token separator, const std::vector<StoryBound>& stories);

// The best possible loss on the very tokens that were scored.
struct BoundComparison {
  double best_possible = 0;          // nats per token
  double excess = 0;                 // loss - best_possible, in nats per token
  double excess_standard_error = 0;  // of `excess`, over stories; how hard each story is cancels out

  double excess_ratio() const { return excess / best_possible; }  // 0.08: 8 % above the best possible loss
  // No model can be expected below the bound. If one is, by more than chance explains, it or the bound is wrong.
  bool impossible() const { return excess < -3 * excess_standard_error; }
};

struct Evaluation {
  double loss = 0;            // nats per token
  double standard_error = 0;  // of `loss`, over pieces (tokens of one piece are not independent); NaN for one piece
  std::uint64_t tokens = 0;   // scored
  std::uint64_t pieces = 0;
  std::optional<double> bits_per_byte;   // of text; separators' losses included. None for ready token files
  std::optional<BoundComparison> bound;  // only for stories of a grammar that fit into block_size

  double perplexity() const;
};

// Evaluates the validation split of `dataset`: story by story with the bound where it has one and every story fits into
// a block, in windows otherwise. `limit`, `stride` and `separator` are as above; the limit is in stories or windows,
// and stories need no stride (one out of its range is refused all the same). Uses no random numbers and leaves the
// model as it is. Throws Error input if the data has more tokens than the model's vocabulary, or too few to score any.
Evaluation evaluate_validation(const Model& model, const Runtime& runtime, const Dataset& dataset,
                               std::uint64_t limit = 0, std::optional<std::int64_t> stride = {},
                               std::optional<Token> separator = {});

// Returns why there is no bound although the corpus has one: "its longest story takes 321 tokens and …"; else none.
std::optional<std::string> why_no_bound(const Dataset& dataset, std::int64_t block_size);

}  // namespace inkling
