// Softmax, cross-entropy and its gradient in one pass over a row that stays in cache.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/math.h"

namespace {

// Overwrites logits by softcap * tanh(logits / softcap).
void cap(float* logits, float softcap, std::int64_t n) {
  const float inverse = 1.0f / softcap;
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) logits[i] = softcap * inkling::fast_tanh(logits[i] * inverse);
}

// With l = softcap tanh(x / softcap): d/dx = (1 - (l / softcap)^2) d/dl. logits hold l, and then the gradient.
void softmax_gradient_through_cap(float* logits, float largest, float factor, std::int64_t target, float scale,
                                  float softcap, std::int64_t n) {
  const float inverse = 1.0f / softcap;
  const float tanh_of_target = logits[target] * inverse;
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const float tanh = logits[i] * inverse;
    logits[i] = inkling::fast_exp(logits[i] - largest) * factor * (1.0f - tanh * tanh);
  }
  logits[target] -= scale * (1.0f - tanh_of_target * tanh_of_target);
}

double cross_entropy(float* logits, const std::int64_t* targets, float scale, float softcap, std::int64_t rows,
                     std::int64_t vocabulary) {
  double loss = 0.0;
  for (std::int64_t row = 0; row < rows; ++row) {
    float* const values = logits + row * vocabulary;
    const std::int64_t target = targets[row];
    if (target < 0) {
      for (std::int64_t i = 0; i < vocabulary; ++i) values[i] = 0.0f;
      continue;
    }
    if (softcap > 0.0f) cap(values, softcap, vocabulary);
    float largest = values[0];
#pragma omp simd reduction(max : largest)
    for (std::int64_t i = 0; i < vocabulary; ++i) largest = values[i] > largest ? values[i] : largest;
    const float target_logit = values[target];
    float total = 0.0f;
    if (softcap > 0.0f) {
#pragma omp simd reduction(+ : total)
      for (std::int64_t i = 0; i < vocabulary; ++i) total += inkling::fast_exp(values[i] - largest);
      loss += std::log(static_cast<double>(total)) + static_cast<double>(largest) - static_cast<double>(target_logit);
      softmax_gradient_through_cap(values, largest, scale / total, target, scale, softcap, vocabulary);
      continue;
    }
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
