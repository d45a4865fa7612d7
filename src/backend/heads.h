// The heads of attention, packed in a tensor and one by one.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>

#include <array>
#include <cstdint>

#include "backend/weights.h"
#include "kernels/kernel_settings.h"

namespace inkling {

struct Heads {
  at::Tensor queries;       // [B, H, T, D]
  at::Tensor keys, values;  // [B, n_kv_head, T, D]
};

// Returns views of queries, keys and values that lie side by side. qkv: [B, T, form.packed()]
inline Heads split_heads(const at::Tensor& qkv, const AttentionForm& form) {
  const at::Tensor heads = qkv.view({qkv.size(0), qkv.size(1), -1, form.head_size}).transpose(1, 2);
  return {heads.narrow(1, 0, form.n_head), heads.narrow(1, form.n_head, form.n_kv_head),
          heads.narrow(1, form.n_head + form.n_kv_head, form.n_kv_head)};
}

// [B, H, T, D] -> [B, T, H D]
inline at::Tensor concatenate_heads(const at::Tensor& heads) { return heads.transpose(1, 2).flatten(2); }

// Heads of keys or values that several query heads share: a copy for each of them.
inline at::Tensor for_each_query(const at::Tensor& shared, const at::Tensor& queries) {
  const std::int64_t group = queries.size(1) / shared.size(1);
  return group == 1 ? shared : shared.repeat_interleave(group, 1);
}

// Returns what a query must not see of a text of `time` tokens: bool [T, T], queries by keys, or [B, 1, T, T] where
// rows hold several documents. positions: int64 [B, T], each token's in its document, or undefined.
inline at::Tensor hidden_keys(std::int64_t time, const AttentionPattern& pattern, const at::TensorOptions& options,
                              const at::Tensor& positions) {
  const at::Tensor keys = at::arange(time, options.dtype(at::kLong));
  const at::Tensor queries = keys.unsqueeze(1);
  at::Tensor hidden = queries.lt(keys);
  if (!pattern.is_full()) {
    const at::Tensor texts = keys.remainder(pattern.dilation);
    hidden.logical_or_(queries.sub(pattern.reach()).gt(keys)).logical_or_(texts.unsqueeze(1).ne(texts));
  }
  if (!positions.defined()) return hidden;
  const at::Tensor begins = (keys - positions).view({-1, 1, time, 1});
  return begins.gt(keys).logical_or_(hidden);
}

// Queries, or keys, as rows of D channels for a norm: `heads` from channel `first` of each packed row on, with their
// mean and rstd from `place` of NormalizedHeads on.
struct NormedHeads {
  std::int64_t first, heads, place;
  const NormWeights& weights;
};

// Returns the queries and the keys of `rows` packed rows.
inline std::array<NormedHeads, 2> normed_heads(std::int64_t rows, const AttentionForm& form,
                                               const BlockWeights& block) {
  return {{{0, form.n_head, 0, block.q_norm}, {form.queries(), form.n_kv_head, rows * form.n_head, block.k_norm}}};
}

}  // namespace inkling
