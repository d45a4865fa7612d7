// Token and position embedding in one pass. The table of positions, and its gradient, may be null.
#pragma once

#include <cstdint>

namespace {

void embedding_forward(const std::int64_t* tokens, const float* token_table, const float* position_table, float* out,
                       std::int64_t first_row, std::int64_t rows, std::int64_t time, std::int64_t channels) {
  for (std::int64_t row = first_row; row < first_row + rows; ++row) {
    const float* const token = token_table + tokens[row] * channels;
    float* const result = out + row * channels;
    if (position_table == nullptr) {
      for (std::int64_t i = 0; i < channels; ++i) result[i] = token[i];
      continue;
    }
    const float* const position = position_table + (row % time) * channels;
#pragma omp simd
    for (std::int64_t i = 0; i < channels; ++i) result[i] = token[i] + position[i];
  }
}

void embedding_backward(const std::int64_t* tokens, const float* dout, float* dtokens, float* dpositions,
                        std::int64_t rows, std::int64_t time, std::int64_t channels, std::int64_t first,
                        std::int64_t last) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* const gradient = dout + row * channels;
    float* const token = dtokens + tokens[row] * channels;
#pragma omp simd
    for (std::int64_t i = first; i < last; ++i) token[i] += gradient[i];
    if (dpositions == nullptr) continue;
    float* const position = dpositions + (row % time) * channels;
#pragma omp simd
    for (std::int64_t i = first; i < last; ++i) position[i] += gradient[i];
  }
}

}  // namespace
