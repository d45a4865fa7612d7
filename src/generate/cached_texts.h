// The keys and values of several texts that grow at the same time, and which part of a text they are of.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "formats/token_file.h"
#include "model/model.h"

namespace inkling {

// The context rule. A text of `length` tokens (prompt included) is continued from its tokens [start, length), encoded
// at positions 0, 1, …: all of them while they fit into block_size T; when they no longer do, the last half of the
// context (T / 2 tokens, the newest included) is encoded anew from position 0 and grows again up to T:
//
//   start = 0                                            for length <= T
//   start = ceil((length - T) / stride) * stride         for length > T, where stride = T + 1 - max(1, T / 2)
//
// It depends on the length alone, so a text is continued alike with and without a cache, and a long prompt exactly as
// if it had been generated. (The positions are learned, so a cached key is of no use at another one.)
std::uint64_t context_start(std::uint64_t length, std::uint64_t block_size);

// The tokens of the text from there on.
std::span<const Token> context_of(std::span<const Token> text, std::int64_t block_size);

class CachedTexts {
 public:
  // `model` must outlive this. `options`: device and dtype of keys and values.
  CachedTexts(const Model& model, std::int64_t max_rows, const at::TensorOptions& options);

  std::size_t count() const { return held_.size(); }
  // Error internal for a number of texts that these rows cannot have become: rows are removed by remove() alone.
  void check_texts(std::size_t texts) const;
  // Positions of the row that are cached.
  std::uint64_t length(std::size_t row) const { return held_[row].length; }

  // Row `row`, or a new one behind the last, holds everything but the last token of the text's context afterwards. That
  // one is decoded together with those of the other rows. Returns true if the row had to be encoded, alone.
  bool prefill_if_stale(std::size_t row, std::span<const Token> text);

  // Views of all rows, for one step; after which each has grown by a position.
  KeyValueCache all() const { return cache_.narrow(0, static_cast<std::int64_t>(held_.size())); }
  void grow();

  // The last row takes the place of this one.
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

// Numbers as int64 on the device.
at::Tensor to_device(std::span<const std::int64_t> numbers, at::Device device);
at::Tensor to_device(std::span<const Token> tokens, at::Device device);

}  // namespace inkling
