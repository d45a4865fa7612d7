// Rotary positions (Su et al. 2021): the pairs (i, i + D/2) of a query or a key turn by the angles of its position.
#pragma once

#include <cstdint>

#include "kernels/cpu_kernels.h"

namespace {

using inkling::AngleTable;

void rotate(const float* in, float* out, const AngleTable& angles, std::int64_t first_row, std::int64_t rows,
            std::int64_t stride, std::int64_t heads, std::int64_t head_size) {
  const std::int64_t half = head_size / 2;
  for (std::int64_t row = first_row; row < first_row + rows; ++row) {
    const float* const cosines = angles.cosines + row % angles.rows * half;
    const float* const sines = angles.sines + row % angles.rows * half;
    for (std::int64_t head = 0; head < heads; ++head) {
      const float* const from = in + row * stride + head * head_size;
      float* const to = out + row * stride + head * head_size;
#pragma omp simd
      for (std::int64_t i = 0; i < half; ++i) {
        const float first = from[i], second = from[half + i], sine = angles.sign * sines[i];
        to[i] = first * cosines[i] - second * sine;
        to[half + i] = second * cosines[i] + first * sine;
      }
    }
    if (in == out) continue;
    for (std::int64_t i = heads * head_size; i < stride; ++i) out[row * stride + i] = in[row * stride + i];
  }
}

}  // namespace
