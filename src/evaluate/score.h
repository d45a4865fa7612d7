// What a model thinks of given tokens: -log p of each, given those before it. Every evaluation rests on this.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "formats/token_file.h"
#include "model/model.h"
#include "runtime/parallel.h"

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

// Settles scoring_bytes: ranks must cut the same batches, so their GPUs take as much as the one with least memory. All
// ranks call it.
void agree_on_batches(Runtime& runtime);

// Returns how many passages of so many positions are computed together: as many as a core's cache, or 1/64 of a
// GPU's memory, hold logits and one layer at work for, and 64 at most.
std::size_t passages_together(const Model& model, const Runtime& runtime, std::int64_t positions);

// Returns how many tokens of passages are worth having at hand, so that those of similar lengths are computed together.
std::size_t tokens_of_pool(const Model& model, const Runtime& runtime);

// Scores passages batch by batch, in the order in which they come. On the CPU each thread takes whole batches, so that
// the numbers do not depend on how many threads there are; but where a batch takes much memory, all threads compute it
// together. Ranks take whole batches in turn, and all have all the numbers. Throws Stopped (base/stop_signals.h) in
// front of batches, once a stop was requested, or in finish(), where it was requested in any rank.
class PassageScorer {
 public:
  PassageScorer(const Model& model, const Runtime& runtime);

  // Adds one to the batch, which is whole when it holds as many as its first passage said (`together`, at least 1).
  void add(Passage passage, std::size_t together);
  // Computes what is left and returns what was scored, in the order of add(). A GPU is waited for here alone.
  std::vector<ScoredPiece> finish();

 private:
  void compute();

  const Model& model_;
  const Runtime& runtime_;
  std::optional<Workers> workers_;             // none where batches are computed one after the other
  std::vector<std::vector<Passage>> batches_;  // to be computed; the last one may not be whole
  bool is_stopped_ = false;                    // where other ranks have to be told
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

// How a text that is longer than the model's block is cut into windows.

// Throws Error input for a stride that is not from 1 to block_size.
void check_stride(std::int64_t stride, std::int64_t block_size);

// Cuts a sequence of tokens, which may come in parts, into windows of block_size + 1 tokens, each of which begins
// `stride` tokens behind the one before it. A window scores the tokens that no window before it has scored, so every
// token but the first is scored once, given at least block_size - stride + 1 tokens, or all there are before it. The
// last window is shorter. With stride = block_size the windows lie back to back; a smaller stride gives more context
// and costs block_size / stride times as much. Keeps two windows and the part that was added last.
class WindowCutter {
 public:
  // Throws what check_stride() throws.
  WindowCutter(std::int64_t block_size, std::int64_t stride);

  void add(std::span<const Token> tokens);
  std::optional<Passage> next();  // the next whole window; none if more tokens have to be added first
  std::optional<Passage> last();  // at the end of the sequence: what is not scored yet, if there is anything

 private:
  Passage cut(std::size_t length);

  std::size_t block_size_, stride_;
  std::vector<Token> tokens_;
  std::size_t begin_ = 0;  // of the next window in tokens_
  std::size_t given_ = 1;  // how many of its tokens are not scored
};

// Scored windows of one text, put together to pieces of block_size tokens or, where the stride does not divide it,
// about as many, so that a standard error over them does not take the windows of a small stride for independent.
class Stretches {
 public:
  explicit Stretches(std::int64_t block_size) : block_size_(static_cast<std::uint64_t>(block_size)) {}
  void add(const ScoredPiece& window);  // the windows in the order of the text
  const std::vector<ScoredPiece>& pieces() const { return pieces_; }

 private:
  std::uint64_t block_size_, scored_ = 0;
  std::vector<ScoredPiece> pieces_;
};

}  // namespace inkling
