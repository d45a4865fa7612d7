// Multiple choice: which of several endings of a text a model finds the likeliest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "evaluate/choice_file.h"
#include "evaluate/score.h"
#include "model/model.h"

namespace inkling {

// How log-probabilities of endings of different lengths are compared. The ending with the highest score is chosen, the
// first of several.
enum class ChoiceRule {
  sum,            // of the log-probabilities of the ending's tokens: lm-eval's acc
  per_token,      // over how many these are: llm.c's
  per_character,  // over the code points of the ending as the file writes it: lm-eval's acc_norm; only for .jsonl
};
inline constexpr std::size_t choice_rules = 3;

// Scored endings of one example.
struct ChoiceResult {
  std::vector<ScoredPiece> endings;
  std::vector<std::size_t> chosen;  // by each rule that the file allows, in the order of ChoiceRule
};

struct Accuracy {
  std::uint64_t right = 0;
  double value = 0;           // right / examples
  double standard_error = 0;  // sqrt(value (1 - value) / (examples - 1)); NaN for one example
};

struct ChoiceEvaluation {
  std::vector<ChoiceResult> results;  // of each example
  std::vector<Accuracy> accuracies;   // in the order of ChoiceRule, as many as the file allows
};

// Scores every ending given its context. Where both are longer than the block, the context loses its beginning, until
// what the model reads has block_size tokens, the ending's last one not counted. Throws Error diverged, naming the
// example, where a score is not a number.
ChoiceEvaluation evaluate_choices(const Model& model, const Runtime& runtime, const ChoiceFile& file);

}  // namespace inkling
