// Tokens to vectors: a row of the token table plus a row of the position table.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/context.h"

namespace inkling {

struct EmbeddingWeights {
  Weight tokens;     // [V, C]
  Weight positions;  // [block_size, C]
};

// tokens: int64 [B, T], ids below V, T <= block_size -> [B, T, C]
at::Tensor embedding(const at::Tensor& tokens, const EmbeddingWeights& weights, const Context& context);

// The same for one token per row at a position of its own. tokens, positions: int64 [B] -> [B, 1, C]. No gradient.
at::Tensor embedding_at(const at::Tensor& tokens, const at::Tensor& positions, const EmbeddingWeights& weights,
                        const Context& context);

}  // namespace inkling
