// What works on flat memory: dropout, sums, the sum of squares, AdamW, what is elementwise of Muon.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cpu_kernels.h"

namespace {

void adamw(float* value, const float* gradient, float* moment1, float* moment2, const inkling::AdamWSettings& settings,
           std::int64_t n) {
  const float beta1 = settings.beta1;
  const float beta2 = settings.beta2;
  const float clip = settings.clip;
  const float epsilon = settings.epsilon;
  const float decay = 1.0f - settings.learning_rate * settings.weight_decay;
  const float step = settings.learning_rate / settings.bias_correction1;
  const float root_correction = 1.0f / std::sqrt(settings.bias_correction2);
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const float g = gradient[i] * clip;
    const float m = beta1 * moment1[i] + (1.0f - beta1) * g;
    const float v = beta2 * moment2[i] + (1.0f - beta2) * g * g;
    moment1[i] = m;
    moment2[i] = v;
    value[i] = value[i] * decay - step * m / (std::sqrt(v) * root_correction + epsilon);
  }
}

void muon_momentum(float* momentum, const float* gradient, float* update, float memory, float clip, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const float g = gradient[i] * clip;
    const float m = memory * momentum[i] + g;
    momentum[i] = m;
    update[i] = g + memory * m;
  }
}

void muon_step(float* value, const float* update, float learning_rate, float weight_decay, std::int64_t n) {
  const float decay = 1.0f - learning_rate * weight_decay;
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) value[i] = value[i] * decay - learning_rate * update[i];
}

void add(float* sums, const float* x, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) sums[i] += x[i];
}

double sum_of_squares(const float* x, std::int64_t n) {
  double total = 0.0;
#pragma omp simd reduction(+ : total)
  for (std::int64_t i = 0; i < n; ++i) total += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return total;
}

// Element i has the random number of place first + i * step.
[[gnu::always_inline]] inline void dropout_apart(float* x, std::uint64_t key, std::uint64_t first, std::uint64_t step,
                                                 std::uint32_t threshold, float scale, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const auto bits =
        static_cast<std::uint32_t>(inkling::random_bits(key, first + static_cast<std::uint64_t>(i) * step) >> 32);
    x[i] = bits >= threshold ? x[i] * scale : 0.0f;
  }
}

void dropout(float* x, std::uint64_t key, std::uint64_t first, std::uint32_t threshold, float scale, std::int64_t n) {
  dropout_apart(x, key, first, 1, threshold, scale, n);
}

}  // namespace
