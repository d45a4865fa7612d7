// Causal attention of one head over packed queries, keys and values, forward and backward, without the future: tiles of
// 12 queries by as many keys as a register holds stop at the diagonal. Each row's scores are whole in memory, so the
// softmax is the textbook's.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/random.h"
#include "kernels/cpu_kernels.h"
#include "kernels/math.h"
#include "kernels/tiles.h"
#include "kernels/vector.h"

namespace {

using inkling::AttentionHead;

constexpr std::int64_t query_block = 48;  // queries whose probabilities are held at once in the backward pass

std::int64_t rounded_up(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit * unit; }

// Rows [first, first + height) of `left` times `right`, transposed, up to column `end`: scores of queries and keys.
// panels: `right` transposed, [D, T]. Row r stands at out[r * stride].
[[gnu::always_inline]] inline void scores_of(const float* left, std::int64_t row, std::int64_t height,
                                             const float* panels, std::int64_t head_size, std::int64_t end, float* out,
                                             std::int64_t stride) {
  for (std::int64_t j = 0; j < end; j += lanes) {
    const auto sums = multiply_tile(left, row, 1, height, panels + j * head_size, head_size);
    for (std::int64_t i = 0; i < height; ++i) store(out + i * stride + j, sums.row[i]);
  }
}

// Multiplies the probabilities of one query by 0 or 1 / (1 - p). Element (head, query, key) has a random number of its
// own, whichever thread asks for it.
[[gnu::always_inline]] inline void drop(const AttentionHead& head, std::int64_t query, const float* in, float* out,
                                        std::int64_t length) {
  const std::uint64_t first = (static_cast<std::uint64_t>(head.index) * static_cast<std::uint64_t>(head.time) +
                               static_cast<std::uint64_t>(query)) *
                              static_cast<std::uint64_t>(head.time);
#pragma omp simd
  for (std::int64_t j = 0; j < length; ++j) {
    const auto bits =
        static_cast<std::uint32_t>(inkling::random_bits(head.dropout_key, first + static_cast<std::uint64_t>(j)) >> 32);
    out[j] = bits >= head.dropout_threshold ? in[j] * head.dropout_scale : 0.0f;
  }
}

// scores [0, length) of one query become e^(s * scale - largest); returns 1 / their sum, and the logarithm of the sum.
[[gnu::always_inline]] inline float softmax_row(float* scores, std::int64_t length, float scale, float& logsumexp) {
  float largest = scores[0];
#pragma omp simd reduction(max : largest)
  for (std::int64_t j = 0; j < length; ++j) largest = scores[j] > largest ? scores[j] : largest;
  float total = 0.0f;
#pragma omp simd reduction(+ : total)
  for (std::int64_t j = 0; j < length; ++j) {
    scores[j] = inkling::fast_exp((scores[j] - largest) * scale);
    total += scores[j];
  }
  logsumexp = largest * scale + std::log(total);
  return 1.0f / total;
}

std::int64_t attention_scratch(std::int64_t time, std::int64_t head_size) {
  const std::int64_t padded_time = rounded_up(time, lanes);
  const std::int64_t padded_head = rounded_up(head_size, lanes);
  return 2 * head_size * padded_time + 5 * padded_time * padded_head + 2 * query_block * padded_time;
}

void attention_forward(const AttentionHead& head, float* out, float* logsumexp, float* scratch) {
  const std::int64_t time = head.time, size = head.head_size, stride = rounded_up(time, lanes);
  const float scale = 1.0f / std::sqrt(static_cast<float>(size));
  float* const keys = scratch;
  float* const values = keys + size * stride;
  float* const scores = values + rounded_up(size, lanes) * time;
  pack_panels(head.keys, 1, head.row, size, time, keys);
  pack_panels(head.values, head.row, 1, time, size, values);
  for (std::int64_t query = 0; query < time; query += tile_rows) {
    const std::int64_t height = time - query < tile_rows ? time - query : tile_rows;
    const std::int64_t end = query + height;
    scores_of(head.queries + query * head.row, head.row, height, keys, size, end, scores, stride);
    float inverse[tile_rows];
    for (std::int64_t i = 0; i < height; ++i) {
      float* const row = scores + i * stride;
      inverse[i] = softmax_row(row, query + i + 1, scale, logsumexp[query + i]);
      for (std::int64_t j = query + i + 1; j < end; ++j) row[j] = 0.0f;
      if (head.dropout_threshold > 0) drop(head, query + i, row, row, query + i + 1);
    }
    for (std::int64_t d = 0; d < size; d += lanes) {
      auto sums = multiply_tile(scores, stride, 1, height, values + d * time, end);
      for (std::int64_t i = 0; i < height; ++i) sums.row[i] *= broadcast(inverse[i]);
      store_tile(sums, out + query * head.out_row + d, head.out_row, height, size - d < lanes ? size - d : lanes,
                 false);
    }
  }
}

// With P the probabilities, M the dropout's factors and O = (P M) V:
// dV = (P M)^T dO, dP = M dO V^T, dS = P (dP - rowsum(dO O)), dQ = dS K, dK = dS^T Q (Dao et al. 2022, appendix B.4).
void attention_backward(const AttentionHead& head, const float* out, const float* logsumexp, const float* dout,
                        float* dqueries, float* dkeys, float* dvalues, float* scratch) {
  const std::int64_t time = head.time, size = head.head_size, stride = rounded_up(time, lanes);
  const std::int64_t padded_head = rounded_up(size, lanes);
  const float scale = 1.0f / std::sqrt(static_cast<float>(size));
  float* const keys_transposed = scratch;
  float* const values_transposed = keys_transposed + size * stride;
  float* const keys = values_transposed + size * stride;
  float* const queries = keys + time * padded_head;
  float* const upstream = queries + time * padded_head;
  float* const probabilities = upstream + time * padded_head;
  float* const dscores = probabilities + query_block * stride;
  pack_panels(head.keys, 1, head.row, size, time, keys_transposed);
  pack_panels(head.values, 1, head.row, size, time, values_transposed);
  pack_panels(head.keys, head.row, 1, time, size, keys);
  pack_panels(head.queries, head.row, 1, time, size, queries);
  pack_panels(dout, head.out_row, 1, time, size, upstream);

  for (std::int64_t block = 0; block < time; block += query_block) {
    const std::int64_t block_end = time - block < query_block ? time : block + query_block;
    for (std::int64_t query = block; query < block_end; query += tile_rows) {
      const std::int64_t height = block_end - query < tile_rows ? block_end - query : tile_rows;
      const std::int64_t end = query + height;
      float* const p = probabilities + (query - block) * stride;
      float* const ds = dscores + (query - block) * stride;
      scores_of(head.queries + query * head.row, head.row, height, keys_transposed, size, end, p, stride);
      scores_of(dout + query * head.out_row, head.out_row, height, values_transposed, size, end, ds, stride);
      for (std::int64_t i = 0; i < height; ++i) {
        const std::int64_t length = query + i + 1;
        float* const p_row = p + i * stride;
        float* const ds_row = ds + i * stride;
        const float* const out_row = out + (query + i) * head.out_row;
        const float* const dout_row = dout + (query + i) * head.out_row;
        const float log_total = logsumexp[query + i];
        float delta = 0.0f;
#pragma omp simd reduction(+ : delta)
        for (std::int64_t d = 0; d < size; ++d) delta += out_row[d] * dout_row[d];
        if (head.dropout_threshold > 0) drop(head, query + i, ds_row, ds_row, length);
#pragma omp simd
        for (std::int64_t j = 0; j < length; ++j) {
          p_row[j] = inkling::fast_exp(p_row[j] * scale - log_total);
          ds_row[j] = p_row[j] * (ds_row[j] - delta) * scale;
        }
        if (head.dropout_threshold > 0) drop(head, query + i, p_row, p_row, length);
        for (std::int64_t j = length; j < block_end; ++j) p_row[j] = ds_row[j] = 0.0f;
      }
      for (std::int64_t d = 0; d < size; d += lanes) {
        const std::int64_t width = size - d < lanes ? size - d : lanes;
        const auto sums = multiply_tile(ds, stride, 1, height, keys + d * time, end);
        store_tile(sums, dqueries + query * head.row + d, head.row, height, width, false);
      }
    }
    for (std::int64_t key = 0; key < block_end; key += tile_rows) {
      const std::int64_t height = block_end - key < tile_rows ? block_end - key : tile_rows;
      const std::int64_t first = key > block ? key : block;  // earlier queries do not see these keys
      for (std::int64_t d = 0; d < size; d += lanes) {
        const std::int64_t width = size - d < lanes ? size - d : lanes;
        const std::int64_t place = (first - block) * stride + key;
        const auto dk =
            multiply_tile(dscores + place, 1, stride, height, queries + d * time + first * lanes, block_end - first);
        const auto dv = multiply_tile(probabilities + place, 1, stride, height, upstream + d * time + first * lanes,
                                      block_end - first);
        store_tile(dk, dkeys + key * head.row + d, head.row, height, width, key < block);
        store_tile(dv, dvalues + key * head.row + d, head.row, height, width, key < block);
      }
    }
  }
}

}  // namespace
