// GELU in both forms, with the bias of the linear layer in front of it. One exp serves the value and the derivative.
#pragma once

#include <cstdint>

#include "kernels/cpu/math.h"
#include "kernels/cpu_kernels.h"

namespace {

using inkling::fast_exp;
using inkling::GeluForm;

struct GeluParts {
  float value;       // gelu(x)
  float derivative;  // gelu'(x)
};

// 0.5 x (1 + tanh(u)) with u = sqrt(2/pi) (x + 0.044715 x^3); 0.5 (1 + tanh(u)) is the logistic function of 2u.
[[gnu::always_inline]] inline GeluParts gelu_tanh(float x) {
  const float u2 = 1.5957691216057308f * (x + 0.044715f * x * x * x);
  const float logistic = 1.0f / (1.0f + fast_exp(-u2));
  const float du2 = 1.5957691216057308f * (1.0f + 3.0f * 0.044715f * x * x);
  return {x * logistic, logistic + x * logistic * (1.0f - logistic) * du2};
}

// x Phi(x). erf by Abramowitz and Stegun 7.1.26 (absolute error below 1.5e-7), whose exp(-x^2/2) is the density too.
[[gnu::always_inline]] inline GeluParts gelu_exact(float x) {
  const float magnitude = (x < 0.0f ? -x : x) * 0.70710678118654752f;
  const float density = fast_exp(-magnitude * magnitude);
  const float t = 1.0f / (1.0f + 0.3275911f * magnitude);
  float p = 1.061405429f;
  p = p * t - 1.453152027f;
  p = p * t + 1.421413741f;
  p = p * t - 0.284496736f;
  p = p * t + 0.254829592f;
  const float tail = 0.5f * p * t * density;  // Phi(-|x|)
  const float cumulative = x < 0.0f ? tail : 1.0f - tail;
  return {x * cumulative, cumulative + x * density * 0.3989422804014327f};
}

template <GeluParts (*gelu)(float)>
[[gnu::always_inline]] inline void gelu_forward_rows(float* pre, const float* bias, float* out, std::int64_t rows,
                                                     std::int64_t channels) {
  for (std::int64_t row = 0; row < rows; ++row) {
    float* const in = pre + row * channels;
    float* const result = out + row * channels;
    if (bias != nullptr) {
#pragma omp simd
      for (std::int64_t i = 0; i < channels; ++i) {
        in[i] += bias[i];
        result[i] = gelu(in[i]).value;
      }
    } else {
#pragma omp simd
      for (std::int64_t i = 0; i < channels; ++i) result[i] = gelu(in[i]).value;
    }
  }
}

template <GeluParts (*gelu)(float)>
[[gnu::always_inline]] inline void gelu_backward_rows(const float* dout, const float* pre, float* dpre, float* dbias,
                                                      std::int64_t rows, std::int64_t channels) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* const upstream = dout + row * channels;
    const float* const in = pre + row * channels;
    float* const result = dpre + row * channels;
#pragma omp simd
    for (std::int64_t i = 0; i < channels; ++i) result[i] = upstream[i] * gelu(in[i]).derivative;
    if (dbias != nullptr) {
#pragma omp simd
      for (std::int64_t i = 0; i < channels; ++i) dbias[i] += result[i];
    }
  }
}

void gelu_forward(float* pre, const float* bias, float* out, GeluForm form, std::int64_t rows, std::int64_t channels) {
  if (form == GeluForm::tanh) {
    gelu_forward_rows<gelu_tanh>(pre, bias, out, rows, channels);
  } else {
    gelu_forward_rows<gelu_exact>(pre, bias, out, rows, channels);
  }
}

void gelu_backward(const float* dout, const float* pre, float* dpre, float* dbias, GeluForm form, std::int64_t rows,
                   std::int64_t channels) {
  if (form == GeluForm::tanh) {
    gelu_backward_rows<gelu_tanh>(dout, pre, dpre, dbias, rows, channels);
  } else {
    gelu_backward_rows<gelu_exact>(dout, pre, dpre, dbias, rows, channels);
  }
}

void add_column_sums(const float* x, float* sums, std::int64_t rows, std::int64_t channels) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* const values = x + row * channels;
#pragma omp simd
    for (std::int64_t i = 0; i < channels; ++i) sums[i] += values[i];
  }
}

}  // namespace
