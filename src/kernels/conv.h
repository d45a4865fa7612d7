// A causal convolution of each channel for itself, with the input added: y_t = x_t + sum over k of weight[k] x_(t-k).
// Row n is position n % time of its text, or where it stands in its document; nothing stands before either.
#pragma once

#include <cstdint>

#include "kernels/kernel_settings.h"

namespace {

// How many of the `width` positions are there for the token at `position`.
inline std::int64_t positions_seen(std::int64_t position, std::int64_t width) {
  return position + 1 < width ? position + 1 : width;
}

// positions may be null.
inline std::int64_t position_of(std::int64_t row, std::int64_t time, const std::int64_t* positions) {
  return positions == nullptr ? row % time : positions[row];
}

// to += weight * from
inline void add_product(const float* weight, const float* from, float* to, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) to[i] += weight[i] * from[i];
}

void conv_forward(const float* x, const float* weight, const std::int64_t* positions, float* out,
                  std::int64_t first_row, std::int64_t rows, std::int64_t time, std::int64_t channels,
                  std::int64_t width) {
  for (std::int64_t row = first_row; row < first_row + rows; ++row) {
    const float* const values = x + row * channels;
    float* const result = out + row * channels;
#pragma omp simd
    for (std::int64_t i = 0; i < channels; ++i) result[i] = values[i] + weight[i] * values[i];
    for (std::int64_t k = 1; k < positions_seen(position_of(row, time, positions), width); ++k) {
      add_product(weight + k * channels, values - k * channels, result, channels);
    }
  }
}

void conv_backward(const float* dout, const float* x, const float* weight, const std::int64_t* positions, float* dx,
                   float* dweight, std::int64_t first_row, std::int64_t rows, std::int64_t time, std::int64_t channels,
                   std::int64_t width) {
  for (std::int64_t row = first_row; row < first_row + rows; ++row) {
    const float *const upstream = dout + row * channels, *const values = x + row * channels;
    float* const result = dx + row * channels;
#pragma omp simd
    for (std::int64_t i = 0; i < channels; ++i) result[i] = upstream[i] + weight[i] * upstream[i];
    for (std::int64_t k = 1; k < positions_seen(time - 1 - row % time, width); ++k) {
      if (position_of(row + k, time, positions) < k) break;  // the next document
      add_product(weight + k * channels, upstream + k * channels, result, channels);
    }
    for (std::int64_t k = 0; k < positions_seen(position_of(row, time, positions), width); ++k) {
      add_product(upstream, values - k * channels, dweight + k * channels, channels);
    }
  }
}

void conv_cached(const float* x, float* inputs, const float* weight, float* out, std::int64_t position,
                 std::int64_t channels, std::int64_t width, std::int64_t first, std::int64_t last) {
  const std::int64_t count = last - first;
  float *const newest = inputs + position % width * channels + first, *const result = out + first;
  for (std::int64_t i = 0; i < count; ++i) newest[i] = x[first + i];
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) result[i] = newest[i] + weight[first + i] * newest[i];
  for (std::int64_t k = 1; k < positions_seen(position, width); ++k) {
    add_product(weight + k * channels + first, inputs + (position - k) % width * channels + first, result, count);
  }
}

}  // namespace
