// Multi-head causal self-attention (Vaswani et al. 2017, section 3.2) on packed queries, keys and values.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "ops/context.h"

namespace inkling {

// qkv: [B, T, 3C], the queries, keys and values of all heads side by side -> [B, T, C], the heads concatenated.
// Position t sees positions 0..t: softmax(q k^T / sqrt(D) + mask) v. Dropout falls on the attention probabilities.
at::Tensor causal_attention(const at::Tensor& qkv, std::int64_t n_head, Context& context);

// Whether cuDNN's attention over `time` positions, which is used where results need not be deterministic, computes
// this: some of its kernels round the probability of dropout to sixteenths, and none takes a single position.
bool cudnn_attends(std::int64_t time, double dropout);

// Keys and values of one layer for rows that have grown to different lengths.
struct CachedLayer {
  at::Tensor keys, values;  // [B, H, block_size, D]
  at::Tensor arrivals;      // int32 [B, H], zeros: what the kernel on a GPU counts its blocks with
};

// Those of all layers, empty at first.
struct KeyValueCache {
  KeyValueCache() = default;
  KeyValueCache(std::int64_t n_layer, std::int64_t rows, std::int64_t n_head, std::int64_t block_size,
                std::int64_t head_size, const at::TensorOptions& options);

  std::vector<CachedLayer> layers;
  at::Tensor lengths;  // int64 [B]: positions held per row
};

// Writes the keys and values of qkv [B, T, 3C] into columns 0..T-1 of the cache. For prompts shorter than T the
// columns past their end hold what nobody reads.
void fill_cache(const at::Tensor& qkv, std::int64_t n_head, const CachedLayer& cache);

// One new position per row: appends its key and value at column lengths[b] and attends over columns 0..lengths[b].
// qkv: [B, 1, 3C]; lengths: int64 [B] on the tensors' device, each below block_size -> [B, 1, C]. No gradient.
at::Tensor cached_attention(const at::Tensor& qkv, std::int64_t n_head, const CachedLayer& cache,
                            const at::Tensor& lengths, const Context& context);

}  // namespace inkling
