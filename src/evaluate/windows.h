// How a text that is longer than the model's block is cut into windows.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "evaluate/score.h"

namespace inkling {

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
