// The logits of the next token for several texts that grow at the same time, with a cache of keys and values.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "formats/token_file.h"
#include "model/device.h"
#include "model/gpt.h"

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

// With a cache, a text's prompt is encoded alone and then all texts take one step at a time together. On the fused
// kernels the bits of a row do not depend on the rows beside it (Context::decoding). LibTorch's matrix products do not
// promise that, so with Kernels::aten (a GPU, bfloat16) rows_together() is 1.
class Decoder {
 public:
  // `model` must outlive this. Without a cache every step encodes the whole context: slow, the judge of the cache.
  Decoder(const Gpt& model, const Runtime& runtime, std::int64_t max_rows, bool use_cache);

  // How many rows may share a step here: bounded by the memory of their caches.
  static std::int64_t rows_together(const GptShape& shape, const Runtime& runtime);

  // texts[r]: the whole text of row r so far, not empty; at most max_rows. Between two calls a row either grows by one
  // token or is removed; new rows come at the end. -> the logits behind each last token, float32 on the CPU, [rows, V].
  at::Tensor next_logits(std::span<const std::span<const Token>> texts);

  // The last row takes the place of this one.
  void remove(std::size_t row);

 private:
  struct Held {
    std::uint64_t start = 0;   // the context's first token in its text
    std::uint64_t length = 0;  // cached tokens from there on
  };

  KeyValueCache rows_of_cache(std::int64_t first, std::int64_t count) const;
  void hold_all_but_last(std::size_t row, std::span<const Token> text);
  at::Tensor uncached_logits(std::span<const Token> text) const;
  at::Tensor to_device(const std::vector<std::int64_t>& values) const;
  std::span<const Token> context_of(std::span<const Token> text) const;

  const Gpt& model_;
  Runtime runtime_;
  std::int64_t max_rows_;
  bool use_cache_;
  KeyValueCache cache_;
  std::vector<Held> held_;  // of the rows there are
};

}  // namespace inkling
