// Causal attention of one head over packed queries, keys and values, forward and backward, in a window or without one:
// tiles of queries by as many keys as a register holds begin where the window does and stop at the diagonal. The scores
// of a query with all keys that it sees are in memory together, so the softmax is the textbook's.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cpu_kernels.h"
#include "kernels/flat_memory.h"
#include "kernels/vector.h"

// Small matrix products in registers, for attention: a tile of some rows of A times a panel, which is as many columns
// of B as one register holds. (Large products are MKL's, through LibTorch.)

namespace {

// Four rows of four floats, `stride` apart, become four columns in `to`.
[[gnu::always_inline]] inline void transpose_4x4(const float* from, std::int64_t stride, float* to,
                                                 std::int64_t to_stride) {
  __m128 row0 = _mm_loadu_ps(from);
  __m128 row1 = _mm_loadu_ps(from + stride);
  __m128 row2 = _mm_loadu_ps(from + 2 * stride);
  __m128 row3 = _mm_loadu_ps(from + 3 * stride);
  _MM_TRANSPOSE4_PS(row0, row1, row2, row3);
  _mm_storeu_ps(to, row0);
  _mm_storeu_ps(to + to_stride, row1);
  _mm_storeu_ps(to + 2 * to_stride, row2);
  _mm_storeu_ps(to + 3 * to_stride, row3);
}

// B [inner, width] as a panel [inner, lanes]; columns from `width` on are zeros.
void pack_panel(const float* b, std::int64_t b_inner, std::int64_t b_column, std::int64_t inner, std::int64_t width,
                float* panel) {
  std::int64_t k = 0;
  if (b_inner == 1 && width == lanes) {
    for (; k + 4 <= inner; k += 4) {
      for (std::int64_t j = 0; j < lanes; j += 4) {
        transpose_4x4(b + j * b_column + k, b_column, panel + k * lanes + j, lanes);
      }
    }
  } else if (b_column == 1 && width == lanes) {
    for (; k < inner; ++k) store(panel + k * lanes, load(b + k * b_inner));
  }
  for (; k < inner; ++k) {
    for (std::int64_t j = 0; j < lanes; ++j) panel[k * lanes + j] = j < width ? b[k * b_inner + j * b_column] : 0.0f;
  }
}

// A matrix [inner, columns] as panels behind one another.
void pack_panels(const float* b, std::int64_t b_inner, std::int64_t b_column, std::int64_t inner, std::int64_t columns,
                 float* panels) {
  for (std::int64_t j = 0; j < columns; j += lanes) {
    pack_panel(b + j * b_column, b_inner, b_column, inner, columns - j < lanes ? columns - j : lanes,
               panels + j * inner);
  }
}

template <std::int64_t rows>
struct Tile {
  Vector row[rows];
};

// Rows of A (a: the first element) times a panel.
template <std::int64_t rows>
[[gnu::always_inline]] inline Tile<rows> multiply_tile(const float* a, std::int64_t a_row, std::int64_t a_inner,
                                                       const float* panel, std::int64_t inner) {
  Tile<rows> sums = {};
  // An address may hold 0, 1 or 2 rows' distance beside a base, so a third of the rows are bases: they fit in
  // registers.
  const float* base[(rows + 2) / 3];
#pragma GCC unroll 4
  for (std::int64_t i = 0; i < rows; i += 3) base[i / 3] = a + i * a_row;
  for (std::int64_t k = 0; k < inner; ++k) {
    const Vector b = load(panel + k * lanes);
#pragma GCC unroll 12
    for (std::int64_t i = 0; i < rows; ++i) {
      sums.row[i] = multiply_add(broadcast(base[i / 3][i % 3 * a_row]), b, sums.row[i]);
    }
#pragma GCC unroll 4
    for (std::int64_t i = 0; i < rows; i += 3) base[i / 3] += a_inner;
  }
  return sums;
}

// C = or += the tile, of which `width` columns are inside C.
template <std::int64_t rows>
[[gnu::always_inline]] inline void store_tile(const Tile<rows>& tile, float* c, std::int64_t c_row, std::int64_t width,
                                              bool add) {
  for (std::int64_t i = 0; i < rows; ++i, c += c_row) {
    if (width == lanes) {
      store(c, add ? load(c) + tile.row[i] : tile.row[i]);
    } else {
      for (std::int64_t j = 0; j < width; ++j) c[j] = tile.row[i][j] + (add ? c[j] : 0.0f);
    }
  }
}

// Calls body.operator()<rows>(first) for tiles of 12, 4 and 1 rows that cover [begin, end): 12 sums hide the time that
// one takes, and leave registers.
template <typename Body>
[[gnu::always_inline]] inline void for_each_tile(std::int64_t begin, std::int64_t end, const Body& body) {
  for (; begin + 12 <= end; begin += 12) body.template operator()<12>(begin);
  for (; begin + 4 <= end; begin += 4) body.template operator()<4>(begin);
  for (; begin < end; ++begin) body.template operator()<1>(begin);
}

using inkling::AttentionHead;

constexpr std::int64_t query_block = 48;  // queries whose probabilities are held at once in the backward pass

std::int64_t rounded_up(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit * unit; }

// The first key that a query sees.
std::int64_t first_seen(const AttentionHead& head, std::int64_t query) {
  return query < head.window ? 0 : query - head.window + 1;
}

// Columns that the scores of neighbouring queries need, beginning at a multiple of `unit` keys.
std::int64_t columns_seen(std::int64_t time, std::int64_t window, std::int64_t queries, std::int64_t unit) {
  return rounded_up(window >= time ? time : window + queries + unit + lanes, lanes);
}
constexpr std::int64_t longest_tile = 12;

// `rows` rows of `left` times `right` transposed, columns [begin, end): scores of queries and keys, rows `stride`
// apart. panels: `right` transposed, [D, T]. begin: a multiple of `lanes`.
template <std::int64_t rows>
[[gnu::always_inline]] inline void scores_of(const float* left, std::int64_t row, const float* panels,
                                             std::int64_t head_size, std::int64_t begin, std::int64_t end, float* out,
                                             std::int64_t stride) {
  for (std::int64_t j = begin; j < end; j += lanes) {
    const Tile<rows> scores = multiply_tile<rows>(left, row, 1, panels + j * head_size, head_size);
    for (std::int64_t i = 0; i < rows; ++i) store(out + i * stride + j - begin, scores.row[i]);
  }
}

// Dropout of the probabilities of one query, of keys from `key` on. Each element has a random number of its own,
// whichever thread asks for it.
void drop(const AttentionHead& head, std::int64_t query, std::int64_t key, float* row, std::int64_t length) {
  if (head.dropout_threshold == 0) return;
  const std::int64_t line = head.index * head.text + head.first + query * head.step;
  const auto first = static_cast<std::uint64_t>(line * head.text + head.first + key * head.step);
  dropout_apart(row, head.dropout_key, first, static_cast<std::uint64_t>(head.step), head.dropout_threshold,
                head.dropout_scale, length);
}

void clear(float* row, std::int64_t begin, std::int64_t end) {
  for (std::int64_t j = begin; j < end; ++j) row[j] = 0.0f;
}

// The scores of one query and `length` keys become e^(score * scale - largest), and 0 up to the end of a register.
// Returns 1 / their sum, and its logarithm.
[[gnu::always_inline]] inline float softmax_row(float* scores, std::int64_t length, float scale, float& logsumexp) {
  const std::int64_t last = (length - 1) / lanes * lanes;
  const Vector tail = first_lanes(load(scores + last), length - last, broadcast(-INFINITY));
  Vector largest = tail;
  for (std::int64_t j = 0; j < last; j += lanes) largest = larger(largest, load(scores + j));
  const float top = largest_of(largest) * scale;
  Vector total = {};
  for (std::int64_t j = 0; j < last; j += lanes) {
    const Vector e = exponential(load(scores + j) * scale - top);
    store(scores + j, e);
    total += e;
  }
  const Vector e = first_lanes(exponential(tail * scale - top), length - last, Vector{});
  store(scores + last, e);
  const float sum = sum_of(total + e);
  logsumexp = top + std::log(sum);
  return 1.0f / sum;
}

// Scores and dP = dO V^T of one query become P and dS, and 0 up to the end of a register.
[[gnu::always_inline]] inline void softmax_row_backward(float* p, float* ds, std::int64_t length, float scale,
                                                        float logsumexp, float delta) {
  for (std::int64_t j = 0; j < length; j += lanes) {
    Vector probability = exponential(load(p + j) * scale - logsumexp);
    if (length - j < lanes) probability = first_lanes(probability, length - j, Vector{});
    store(p + j, probability);
    store(ds + j, probability * (load(ds + j) - delta) * scale);
  }
}

std::int64_t attention_scratch(std::int64_t time, std::int64_t head_size, std::int64_t window) {
  const std::int64_t padded_time = rounded_up(time, lanes);
  const std::int64_t padded_head = rounded_up(head_size, lanes);
  return 2 * head_size * padded_time + 3 * padded_time * padded_head +
         2 * query_block * columns_seen(time, window, query_block, query_block);
}

void attention_forward(const AttentionHead& head, float* out, float* logsumexp, float* scratch) {
  const std::int64_t time = head.time, size = head.head_size;
  const std::int64_t stride = columns_seen(time, head.window, longest_tile, lanes);
  const float scale = 1.0f / std::sqrt(static_cast<float>(size));
  float* const keys = scratch;
  float* const values = keys + size * rounded_up(time, lanes);
  float* const scores = values + rounded_up(size, lanes) * time;
  pack_panels(head.keys, 1, head.row, size, time, keys);
  pack_panels(head.values, head.row, 1, time, size, values);
  for_each_tile(0, time, [&]<std::int64_t rows>(std::int64_t query) {
    const std::int64_t origin = first_seen(head, query) / lanes * lanes, end = query + rows;
    scores_of<rows>(head.queries + query * head.row, head.row, keys, size, origin, end, scores, stride);
    float inverse[rows];
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::int64_t begin = first_seen(head, query + i), length = query + i + 1 - begin;
      const std::int64_t filled = rounded_up(length, lanes);
      float* const row = scores + i * stride;
      float* const seen = row + begin - origin;
      inverse[i] = softmax_row(seen, length, scale, logsumexp[query + i]);
      clear(row, 0, begin - origin);
      clear(seen, filled, end - begin);
      drop(head, query + i, begin, seen, filled);
    }
    for (std::int64_t d = 0; d < size; d += lanes) {
      Tile<rows> sums = multiply_tile<rows>(scores, stride, 1, values + d * time + origin * lanes, end - origin);
      for (std::int64_t i = 0; i < rows; ++i) sums.row[i] *= inverse[i];
      store_tile(sums, out + query * head.out_row + d, head.out_row, size - d < lanes ? size - d : lanes, false);
    }
  });
}

// With P the probabilities, M the dropout's factors and O = (P M) V:
// dV = (P M)^T dO, dP = M dO V^T, dS = P (dP - rowsum(dO O)), dQ = dS K, dK = dS^T Q (Dao et al. 2022, appendix B.4).
void attention_backward(const AttentionHead& head, const float* out, const float* logsumexp, const float* dout,
                        float* dqueries, float* dkeys, float* dvalues, float* scratch) {
  const std::int64_t time = head.time, size = head.head_size, padded_time = rounded_up(time, lanes);
  const std::int64_t stride = columns_seen(time, head.window, query_block, query_block);
  const std::int64_t panel_size = time * rounded_up(size, lanes);
  const float scale = 1.0f / std::sqrt(static_cast<float>(size));
  float* const keys_transposed = scratch;
  float* const values_transposed = keys_transposed + size * padded_time;
  float* const keys = values_transposed + size * padded_time;
  float* const queries = keys + panel_size;
  float* const upstream = queries + panel_size;
  float* const probabilities = upstream + panel_size;
  float* const dscores = probabilities + query_block * stride;
  pack_panels(head.keys, 1, head.row, size, time, keys_transposed);
  pack_panels(head.values, 1, head.row, size, time, values_transposed);
  pack_panels(head.keys, head.row, 1, time, size, keys);
  pack_panels(head.queries, head.row, 1, time, size, queries);
  pack_panels(dout, head.out_row, 1, time, size, upstream);

  for (std::int64_t block = 0; block < time; block += query_block) {
    const std::int64_t block_end = time - block < query_block ? time : block + query_block;
    // Column 0 of the block's rows. A multiple of the blocks' length, so that no tile of keys lies in two blocks.
    const std::int64_t origin = first_seen(head, block) / query_block * query_block;
    for_each_tile(block, block_end, [&]<std::int64_t rows>(std::int64_t query) {
      const std::int64_t tile_begin = first_seen(head, query) / lanes * lanes, end = query + rows;
      float* const p = probabilities + (query - block) * stride;
      float* const ds = dscores + (query - block) * stride;
      const std::int64_t inside = tile_begin - origin;
      scores_of<rows>(head.queries + query * head.row, head.row, keys_transposed, size, tile_begin, end, p + inside,
                      stride);
      scores_of<rows>(dout + query * head.out_row, head.out_row, values_transposed, size, tile_begin, end, ds + inside,
                      stride);
      for (std::int64_t i = 0; i < rows; ++i) {
        const std::int64_t begin = first_seen(head, query + i), length = query + i + 1 - begin;
        const std::int64_t filled = rounded_up(length, lanes);
        float* const p_row = p + i * stride + begin - origin;
        float* const ds_row = ds + i * stride + begin - origin;
        const float* const out_row = out + (query + i) * head.out_row;
        const float* const dout_row = dout + (query + i) * head.out_row;
        float delta = 0.0f;
#pragma omp simd reduction(+ : delta)
        for (std::int64_t d = 0; d < size; ++d) delta += out_row[d] * dout_row[d];
        drop(head, query + i, begin, ds_row, filled);
        softmax_row_backward(p_row, ds_row, length, scale, logsumexp[query + i], delta);
        drop(head, query + i, begin, p_row, filled);
        for (float* const row : {p_row, ds_row}) {
          clear(row, origin - begin, 0);
          clear(row, filled, block_end - begin);
        }
      }
      for (std::int64_t d = 0; d < size; d += lanes) {
        store_tile(multiply_tile<rows>(ds + inside, stride, 1, keys + d * time + tile_begin * lanes, end - tile_begin),
                   dqueries + query * head.row + d, head.row, size - d < lanes ? size - d : lanes, false);
      }
    });
    const std::int64_t first_key = first_seen(head, block) / longest_tile * longest_tile;
    for_each_tile(first_key, block_end, [&]<std::int64_t rows>(std::int64_t key) {
      const std::int64_t first = key > block ? key : block;  // earlier queries do not see these keys
      const std::int64_t newest = key + rows - 1;            // and later ones than this key's window do not either
      const std::int64_t last = block_end - newest <= head.window ? block_end : newest + head.window;
      const std::int64_t place = (first - block) * stride + key - origin, count = last - first;
      const bool add = key < block || !head.is_first_of_group;
      for (std::int64_t d = 0; d < size; d += lanes) {
        const std::int64_t width = size - d < lanes ? size - d : lanes, panel = d * time + first * lanes;
        store_tile(multiply_tile<rows>(dscores + place, 1, stride, queries + panel, count), dkeys + key * head.row + d,
                   head.row, width, add);
        store_tile(multiply_tile<rows>(probabilities + place, 1, stride, upstream + panel, count),
                   dvalues + key * head.row + d, head.row, width, add);
      }
    });
  }
}

}  // namespace
