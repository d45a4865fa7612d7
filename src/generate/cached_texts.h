// The keys and values of several texts that grow at the same time, and which part of each text they belong to.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "formats/token_file.h"
#include "model/model.h"

namespace inkling {

// The context rule. Where a text can go on without end (GptShape::is_endless()), its context is all of it. Everywhere
// else a text of `length` tokens (prompt included) is continued from its tokens [start, length), encoded
// at positions 0, 1, …: all of them while they fit into block_size T; when they no longer do, the last half of the
// context (T / 2 tokens, the newest included) is encoded anew from position 0 and grows again up to T:
//
//   start = 0                                            for length <= T
//   start = ceil((length - T) / stride) * stride         for length > T, where stride = T + 1 - max(1, T / 2)
//
// It depends on the length alone, so a text is continued alike with and without a cache, and a long prompt exactly as
// if it had been generated. (Positions count from the context's start, learned or turned, so a cached key cannot be
// used at another.)
std::uint64_t context_start(std::uint64_t length, std::uint64_t block_size);

// Returns the tokens of the text that are its context.
std::span<const Token> context_of(std::span<const Token> text, const GptShape& shape);

// Returns those that repetition_penalty counts: the context, or the last block of it.
std::span<const Token> penalized_tokens(std::span<const Token> text, const GptShape& shape);

// Returns how many positions the contexts of texts of at most `longest` tokens have at most.
std::int64_t longest_context(const GptShape& shape, std::int64_t longest);

class CachedTexts {
 public:
  // `model` must outlive this. longest: tokens that a text may reach. `options`: device and dtype of keys and values.
  CachedTexts(const Model& model, std::int64_t max_rows, std::int64_t longest, const at::TensorOptions& options);

  std::size_t count() const { return held_.size(); }
  // Throws Error internal for a number of texts that these rows cannot have become, because only remove() removes rows.
  void check_texts(std::size_t texts) const;
  // Returns how many positions of the row are cached.
  std::uint64_t length(std::size_t row) const { return held_[row].length; }

  // Makes row `row`, or a new one after the last, hold the text's context without its last token, which is decoded
  // together with those of the other rows.
  void prefill_if_stale(std::size_t row, std::span<const Token> text);

  // Returns views of all rows, for one step. grow() must follow the step: each row has one more position then.
  KeyValueCache all() const { return cache_.narrow(0, static_cast<std::int64_t>(held_.size())); }
  void grow();

  // Removes a row; the last row takes its place.
  void remove(std::size_t row);

 private:
  struct Held {
    std::uint64_t start = 0;   // the context's first token in its text
    std::uint64_t length = 0;  // cached tokens from there on
  };

  KeyValueCache only(std::size_t row) const { return cache_.narrow(static_cast<std::int64_t>(row), 1); }

  const Model& model_;
  KeyValueCache cache_;
  std::vector<Held> held_;  // of the rows there are
};

// Return the numbers as int64 on the device.
at::Tensor to_device(std::span<const std::int64_t> numbers, at::Device device);
at::Tensor to_device(std::span<const Token> tokens, at::Device device);

}  // namespace inkling
