// Softmax, cross-entropy and its gradient in one pass over a row that stays in cache.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cpu/math.h"

namespace {

double cross_entropy(float* logits, const std::int64_t* targets, float scale, std::int64_t rows,
                     std::int64_t vocabulary) {
  double loss = 0.0;
  for (std::int64_t row = 0; row < rows; ++row) {
    float* const values = logits + row * vocabulary;
    const std::int64_t target = targets[row];
    if (target < 0) {
      for (std::int64_t i = 0; i < vocabulary; ++i) values[i] = 0.0f;
      continue;
    }
    float largest = values[0];
#pragma omp simd reduction(max : largest)
    for (std::int64_t i = 0; i < vocabulary; ++i) largest = values[i] > largest ? values[i] : largest;
    const float target_logit = values[target];
    float total = 0.0f;
#pragma omp simd reduction(+ : total)
    for (std::int64_t i = 0; i < vocabulary; ++i) {
      values[i] = inkling::fast_exp(values[i] - largest);
      total += values[i];
    }
    loss += std::log(static_cast<double>(total)) + static_cast<double>(largest) - static_cast<double>(target_logit);
    const float factor = scale / total;
#pragma omp simd
    for (std::int64_t i = 0; i < vocabulary; ++i) values[i] *= factor;
    values[target] -= scale;
  }
  return loss;
}

}  // namespace
