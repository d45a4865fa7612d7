// Small matrix products in registers, for attention: a tile of some rows of A times a panel, which is as many columns
// of B as one register holds. (Large products are MKL's, through LibTorch.)
#pragma once

#include <cstdint>

#include "kernels/vector.h"

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

constexpr std::int64_t tile_rows = 12;  // as many sums as hide the time of one, and leave registers

struct Tile {
  Vector row[tile_rows];
};

// Rows of A (a: the first element) times a panel. Rows from `height` on repeat the last one.
[[gnu::always_inline]] inline Tile multiply_tile(const float* a, std::int64_t a_row, std::int64_t a_inner,
                                                 std::int64_t height, const float* panel, std::int64_t inner) {
  Tile sums = {};
  const float* row[tile_rows];
#pragma GCC unroll 12
  for (std::int64_t i = 0; i < tile_rows; ++i) row[i] = a + (i < height ? i : height - 1) * a_row;
  for (std::int64_t k = 0; k < inner; ++k) {
    const Vector b = load(panel + k * lanes);
#pragma GCC unroll 12
    for (std::int64_t i = 0; i < tile_rows; ++i) {
      sums.row[i] = multiply_add(broadcast(row[i][k * a_inner]), b, sums.row[i]);
    }
  }
  return sums;
}

// C = or += the tile, of which `height` rows and `width` columns are inside C.
[[gnu::always_inline]] inline void store_tile(const Tile& tile, float* c, std::int64_t c_row, std::int64_t height,
                                              std::int64_t width, bool add) {
  for (std::int64_t i = 0; i < height; ++i, c += c_row) {
    if (width == lanes) {
      store(c, add ? load(c) + tile.row[i] : tile.row[i]);
    } else {
      for (std::int64_t j = 0; j < width; ++j) c[j] = tile.row[i][j] + (add ? c[j] : 0.0f);
    }
  }
}

}  // namespace
