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

// A processor reads its memory fastest in several streams at once, each through a long stretch of it.
constexpr std::int64_t streams = 8;

// out[j] += factors[0] * line 0 [j] + factors[1] * line 1 [j] + …, in this order; lines are `apart` elements apart.
template <std::int64_t lines, typename Element>
[[gnu::always_inline]] inline void add_lines(const float* factors, const Element* weight, std::int64_t apart,
                                             std::int64_t columns, float* out) {
#pragma omp simd
  for (std::int64_t j = 0; j < columns; ++j) {
    float sum = out[j];
#pragma GCC unroll 8
    for (std::int64_t k = 0; k < lines; ++k) {
      sum = inkling::multiply_add(factors[k], as_float(weight[k * apart + j]), sum);
    }
    out[j] = sum;
  }
}

// The weight passes by once, in `streams` stretches of lines; the sums of all columns stay in cache.
template <typename Element>
void rows_times_lines(const float* x, const Element* weight, float* out, std::int64_t rows, std::int64_t inner,
                      std::int64_t columns, std::int64_t first, std::int64_t last) {
  for (std::int64_t i = 0; i < rows * columns; ++i) out[i] = 0.0f;
  const std::int64_t length = (last - first) / streams;  // of a stretch
  for (std::int64_t i = first; i < first + length; ++i) {
    for (std::int64_t row = 0; row < rows; ++row) {
      float factors[streams];
      for (std::int64_t k = 0; k < streams; ++k) factors[k] = x[row * inner + i + k * length];
      add_lines<streams>(factors, weight + i * columns, length * columns, columns, out + row * columns);
    }
  }
  for (std::int64_t k = first + streams * length; k < last; ++k) {
    for (std::int64_t row = 0; row < rows; ++row) {
      add_lines<1>(x + row * inner + k, weight + k * columns, columns, columns, out + row * columns);
    }
  }
}

// `count` dot products of a with lines of b that are `apart` elements apart. Each has sixteen running sums, added up in
// a fixed order at the end.
template <std::int64_t count, typename Element>
[[gnu::always_inline]] inline void dots(const float* a, const Element* b, std::int64_t apart, std::int64_t n,
                                        float* results) {
  float sums[count][16] = {};
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
#pragma GCC unroll 8
    for (std::int64_t k = 0; k < count; ++k) {
#pragma omp simd
      for (std::int64_t lane = 0; lane < 16; ++lane) {
        sums[k][lane] = inkling::multiply_add(a[i + lane], as_float(b[k * apart + i + lane]), sums[k][lane]);
      }
    }
  }
  for (std::int64_t k = 0; k < count; ++k) {
    float total = 0.0f;
    for (float lane : sums[k]) total += lane;
    for (std::int64_t j = i; j < n; ++j) total = inkling::multiply_add(a[j], as_float(b[k * apart + j]), total);
    results[k] = total;
  }
}

[[gnu::always_inline]] inline float dot(const float* a, const float* b, std::int64_t n) {
  float result;
  dots<1>(a, b, 0, n, &result);
  return result;
}

template <typename Element>
void rows_times_transposed(const float* x, const Element* weight, float* out, std::int64_t rows, std::int64_t inner,
                           std::int64_t columns, std::int64_t first, std::int64_t last) {
  const std::int64_t length = (last - first) / streams;  // of a stretch
  for (std::int64_t i = first; i < first + length; ++i) {
    for (std::int64_t row = 0; row < rows; ++row) {
      float results[streams];
      dots<streams>(x + row * inner, weight + i * inner, length * inner, inner, results);
      for (std::int64_t k = 0; k < streams; ++k) out[row * columns + i + k * length] = results[k];
    }
  }
  for (std::int64_t column = first + streams * length; column < last; ++column) {
    for (std::int64_t row = 0; row < rows; ++row) {
      dots<1>(x + row * inner, weight + column * inner, 0, inner, out + row * columns + column);
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
