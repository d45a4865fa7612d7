// Small matrix products in registers, for attention: a tile of some rows of A times a panel, which is as many columns
// of B as one register holds. (Large products are MKL's, through LibTorch.)
#pragma once

#include <cstdint>

#include "kernels/cpu/vector.h"

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

}  // namespace
