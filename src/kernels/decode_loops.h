// What generating one token at a time needs: a few rows times a matrix, and attention over cached keys.
// Sums run in a fixed order per output element with explicit fused multiply-adds, so that a row's bits are its own.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/math.h"

namespace {

// A weight's element as float: float itself, or bfloat16, the upper half of a float's bits.
[[gnu::always_inline]] inline float as_float(float weight) { return weight; }
[[gnu::always_inline]] inline float as_float(std::uint16_t weight) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(weight) << 16);
}

constexpr std::int64_t lines_at_once = 8;  // of the weight: as many streams as a processor fetches ahead
constexpr std::int64_t columns_at_once = 1024;

// out[j] += x[0] * line 0 [j] + x[1] * line 1 [j] + …, in this order.
template <std::int64_t lines, typename Element>
[[gnu::always_inline]] inline void add_lines(const float* x, const Element* weight, std::int64_t columns, float* out,
                                             std::int64_t width) {
#pragma omp simd
  for (std::int64_t j = 0; j < width; ++j) {
    float sum = out[j];
#pragma GCC unroll 8
    for (std::int64_t k = 0; k < lines; ++k) sum = inkling::multiply_add(x[k], as_float(weight[k * columns + j]), sum);
    out[j] = sum;
  }
}

// The weight passes by once, a few lines at a time; the sums of some columns stay in cache.
template <typename Element>
void rows_times_matrix(const float* x, const Element* weight, const float* bias, float* out, std::int64_t rows,
                       std::int64_t inner, std::int64_t columns, std::int64_t first, std::int64_t last) {
  for (std::int64_t tile = first; tile < last; tile += columns_at_once) {
    const std::int64_t width = last - tile < columns_at_once ? last - tile : columns_at_once;
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t j = 0; j < width; ++j) out[row * columns + tile + j] = 0.0f;
    }
    std::int64_t k = 0;
    for (; k + lines_at_once <= inner; k += lines_at_once) {
      for (std::int64_t row = 0; row < rows; ++row) {
        add_lines<lines_at_once>(x + row * inner + k, weight + k * columns + tile, columns, out + row * columns + tile,
                                 width);
      }
    }
    for (; k < inner; ++k) {
      for (std::int64_t row = 0; row < rows; ++row) {
        add_lines<1>(x + row * inner + k, weight + k * columns + tile, columns, out + row * columns + tile, width);
      }
    }
    for (std::int64_t row = 0; bias != nullptr && row < rows; ++row) {
      for (std::int64_t j = 0; j < width; ++j) out[row * columns + tile + j] += bias[tile + j];
    }
  }
}

// Sixteen running sums per dot product, added up in a fixed order at the end.
template <typename Element>
[[gnu::always_inline]] inline float dot(const float* a, const Element* b, std::int64_t n) {
  float sums[16] = {};
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
#pragma omp simd
    for (std::int64_t lane = 0; lane < 16; ++lane)
      sums[lane] = inkling::multiply_add(a[i + lane], as_float(b[i + lane]), sums[lane]);
  }
  float total = 0.0f;
  for (float lane : sums) total += lane;
  for (; i < n; ++i) total = inkling::multiply_add(a[i], as_float(b[i]), total);
  return total;
}

template <typename Element>
void rows_times_transposed(const float* x, const Element* weight, float* out, std::int64_t rows, std::int64_t inner,
                           std::int64_t columns, std::int64_t first, std::int64_t last) {
  for (std::int64_t column = first; column < last; ++column) {
    for (std::int64_t row = 0; row < rows; ++row) {
      out[row * columns + column] = dot(x + row * inner, weight + column * inner, inner);
    }
  }
}

void attend_cached(const float* query, const float* keys, const float* values, float* out, float* scores,
                   std::int64_t length, std::int64_t stride, std::int64_t head_size) {
  const float scale = 1.0f / std::sqrt(static_cast<float>(head_size));
  float largest = -INFINITY;
  for (std::int64_t t = 0; t < length; ++t) {
    scores[t] = dot(query, keys + t * stride, head_size) * scale;
    largest = scores[t] > largest ? scores[t] : largest;
  }
  float total = 0.0f;
  for (std::int64_t t = 0; t < length; ++t) {
    scores[t] = inkling::fast_exp(scores[t] - largest);
    total += scores[t];
  }
  for (std::int64_t i = 0; i < head_size; ++i) out[i] = 0.0f;
  for (std::int64_t t = 0; t < length; ++t) {
    const float weight = scores[t] / total;
    const float* const value = values + t * stride;
#pragma omp simd
    for (std::int64_t i = 0; i < head_size; ++i) out[i] = inkling::multiply_add(weight, value[i], out[i]);
  }
}

}  // namespace
