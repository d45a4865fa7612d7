// Parts of the model in LibTorch's own operations, on any device and in any dtype. The reference model is made of them,
// and they take the place of what a backend declines.
#pragma once

#include <ATen/core/Tensor.h>

#include "backend/backend.h"
#include "backend/heads.h"
#include "model/operations.h"

namespace inkling {

// What goes into the MLP's activation -> what comes out, half as wide if it is gated.
at::Tensor activate(const at::Tensor& x, Activation activation);

// Returns the scores of form.scores, and -infinity where a token may not look: [B, H, T, T], queries by keys, and in
// float32 at least where distances count. q, k: [B, H, T, D], the heads of queries from first_head on; positions: as in
// backend.h.
at::Tensor visible_scores(const at::Tensor& q, const at::Tensor& k, const AttentionForm& form,
                          const at::Tensor& positions, std::int64_t first_head = 0);

// attention() of model/operations.h, step by step under autograd, in float32.
at::Tensor composed_attention(const at::Tensor& qkv, const AttentionForm& form, Pass& pass);

// Attention of one new position per row, whose key and value go into the cache: [B, 1, H D]. lengths: int64 [B],
// before.
at::Tensor cached_attention(const Heads& heads, const AttentionForm& form, const CachedLayer& cache,
                            const at::Tensor& lengths);

// A convolution, as in backend.h, of one new position per row, which goes into the ring of its last inputs. x: [B, 1,
// C]; weight: [K, C], or undefined: then x itself.
at::Tensor cached_convolve(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& ring,
                           const at::Tensor& lengths);

}  // namespace inkling
