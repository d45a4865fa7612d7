// Multiple choice: which of several endings of a text a model finds the likeliest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/model_weights.h"
#include "evaluate/score.h"
#include "formats/eval_file.h"
#include "model/model.h"

namespace inkling {

// Files of multiple-choice questions: .jsonl with texts, and llm.c's .bin with tokens (docs/formats.md).

struct ChoiceExample : TokenChoice {
  std::vector<std::uint64_t> characters;  // code points of each ending; none where the file holds tokens
  std::uint64_t number = 0;               // line in a .jsonl, from 1; number of the example in a .bin, from 0
};

struct ChoiceFile {
  std::filesystem::path path;
  bool has_text = false;  // .jsonl
  std::vector<ChoiceExample> examples;
  std::uint64_t passed_over = 0;  // lines of a .jsonl, examples of a .bin
};

// What is done about an example that cannot be scored.
enum class Unusable { pass_over, refuse };

inline constexpr std::size_t most_endings = 1000;

// Reads the whole file, of at most 64 MiB, and checks it: llm.c's where it is named *.bin, .jsonl otherwise. A line
// that is no such question or cannot be encoded, and an example with an ending longer than the model's block, is passed
// over, which a warning says with the line and field, or the example; or refused, if `unusable` says so. Throws Error
// input for a .bin that is not llm.c's throughout or holds tokens that the model does not have, naming the byte and the
// example, and for a file of no example that can be scored.
//
// A line's text is its context with an ending behind it, as they stand. The context's tokens are those of the context
// alone, without the white space at its end; the ending's are those of the whole text behind as many. In front of them
// stands what the tokenizer puts in front of every text, and token_in_front() where there is no context. So does
// lm-eval (TemplateLM._encode_pair), which fails where that leaves an ending without a token; its `target_delimiter`, a
// space, is written at the end of the context here. Of a line's context the last block_size tokens are kept, which are
// all that the model can see, so that an example takes no more than block_size tokens for its context and for each
// ending, however long the line is.
ChoiceFile read_choices(const std::filesystem::path& path, const LoadedModel& model,
                        Unusable unusable = Unusable::pass_over);

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
