// The logits of the next token for several texts that grow at the same time.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>

#include "generate/cached_rows.h"

namespace inkling {

// With a cache, a text's prompt is encoded alone and then all texts take one step at a time together. On the fused
// kernels the bits of a row do not depend on the rows beside it (Context::decoding). LibTorch's matrix products do not
// promise that, so with Kernels::reference (what auto means on a GPU) rows_together() is 1.
class Decoder {
 public:
  // `model` must outlive this. Without a cache every step encodes the whole context: slow, the judge of the cache.
  Decoder(const Gpt& model, const Runtime& runtime, std::int64_t max_rows, bool use_cache);

  // How many rows may share a step whose caches may take so many bytes.
  static std::int64_t rows_together(const GptShape& shape, const Runtime& runtime, std::int64_t cache_bytes);
  // On the CPU a fixed number; on a GPU half of what is free there. Rows share nothing, so texts do not depend on it.
  static std::int64_t cache_bytes(at::Device device);

  // texts[r]: the whole text of row r so far, not empty; at most max_rows. Between two calls a row either grows by one
  // token or is removed; new rows come at the end. -> the logits behind each last token, float32 on the CPU, [rows, V].
  at::Tensor next_logits(std::span<const std::span<const Token>> texts);

  // The last row takes the place of this one.
  void remove(std::size_t row);

 private:
  at::Tensor uncached_logits(std::span<const Token> text) const;

  const Gpt& model_;
  Runtime runtime_;
  std::optional<CachedRows> rows_;  // none without a cache
};

}  // namespace inkling
