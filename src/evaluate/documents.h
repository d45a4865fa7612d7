// The loss on any text, document by document.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/model_weights.h"
#include "evaluate/score.h"

namespace inkling {

// How a document is scored. In front stands one token that is not scored: the tokenizer's first_token(), or else its
// separator. All tokens of the text behind it are scored, and no token for its end. A tokenizer that has neither leaves
// the first token of each document without anything to be predicted from, so that one is not scored. A document longer
// than the block is cut into windows (evaluate/score.h); the context never reaches into another document.
//
// This is what lm-eval calls loglikelihood_rolling, but for the last window of a document that is longer than the
// block: there lm-eval gives the tokens a whole block of context.

struct TextSettings {
  // Each is one document or, named *.jsonl, one a line, unless `separator` says more; "-" is standard input, one
  // document of at most 64 MiB.
  std::vector<std::string> files;
  std::string jsonl_field = "text";
  std::string separator = {};               // ends a document wherever it stands; empty: nowhere
  bool raw = false;                         // data.raw
  std::optional<std::int64_t> stride = {};  // none: block_size
};

// What a file of TextSettings is called in what is printed.
std::string text_name(const std::string& file);

struct TextScore {
  ScoredPiece piece = {};
  std::uint64_t bytes = 0;  // of UTF-8, which the scored tokens stand for

  double loss() const;  // nats per token
  double bits_per_byte() const;
};

struct DocumentScore : TextScore {
  std::size_t file = 0;    // which of TextSettings::files
  std::uint64_t line = 1;  // where it begins
};

struct TextEvaluation {
  std::vector<DocumentScore> documents;  // those of which a token is scored
  TextScore total;
  // Of the loss, in nats per token, over documents; of a single document over its pieces of block_size tokens. NaN
  // where there is one piece alone.
  double standard_error = 0;
};

// Scores the documents in `settings.files`. It keeps a few MiB of a text (of .jsonl a line), the tokens of sixteen
// batches of windows, 40 bytes a document, and 16 for each block_size tokens of the first document. Throws Error input,
// with file and line, for text that cannot be encoded or .jsonl that cannot be read, for a folder, a pipe, and a file
// that is named as something else than text, for a stride out of its range, and where there is no token to score;
// Error diverged, naming the document, where its loss is not a number.
TextEvaluation evaluate_text(const LoadedModel& model, const TextSettings& settings);

}  // namespace inkling
