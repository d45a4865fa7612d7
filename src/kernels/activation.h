// The activations of the MLP, with the bias of the linear layer in front. One exp serves the value and the derivative.
#pragma once

#include <cstdint>

#include "kernels/cpu_kernels.h"
#include "kernels/math.h"

namespace {

using inkling::Activation;
using inkling::fast_exp;

struct ActivationParts {
  float value;       // a(x)
  float derivative;  // a'(x)
};

// 0.5 x (1 + tanh(u)) with u = sqrt(2/pi) (x + 0.044715 x^3); 0.5 (1 + tanh(u)) is the logistic function of 2u.
[[gnu::always_inline]] inline ActivationParts gelu_tanh(float x) {
  const float u2 = 1.5957691216057308f * (x + 0.044715f * x * x * x);
  const float logistic = 1.0f / (1.0f + fast_exp(-u2));
  const float du2 = 1.5957691216057308f * (1.0f + 3.0f * 0.044715f * x * x);
  return {x * logistic, logistic + x * logistic * (1.0f - logistic) * du2};
}

// x Phi(x). erf by Abramowitz and Stegun 7.1.26 (absolute error below 1.5e-7), whose exp(-x^2/2) is the density too.
[[gnu::always_inline]] inline ActivationParts gelu_exact(float x) {
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

[[gnu::always_inline]] inline ActivationParts relu(float x) {
  return x > 0.0f ? ActivationParts{x, 1.0f} : ActivationParts{0.0f, 0.0f};
}

[[gnu::always_inline]] inline ActivationParts relu_squared(float x) {
  const float positive = x > 0.0f ? x : 0.0f;
  return {positive * positive, 2.0f * positive};
}

[[gnu::always_inline]] inline ActivationParts silu(float x) {
  const float logistic = 1.0f / (1.0f + fast_exp(-x));
  return {x * logistic, logistic + x * logistic * (1.0f - logistic)};
}

template <ActivationParts (*activate)(float)>
[[gnu::always_inline]] inline void forward_rows(float* pre, const float* bias, float* out, std::int64_t rows,
                                                std::int64_t channels) {
  for (std::int64_t row = 0; row < rows; ++row) {
    float* const in = pre + row * channels;
    float* const result = out + row * channels;
    if (bias != nullptr) {
#pragma omp simd
      for (std::int64_t i = 0; i < channels; ++i) {
        in[i] += bias[i];
        result[i] = activate(in[i]).value;
      }
    } else {
#pragma omp simd
      for (std::int64_t i = 0; i < channels; ++i) result[i] = activate(in[i]).value;
    }
  }
}

template <ActivationParts (*activate)(float)>
[[gnu::always_inline]] inline void backward_rows(const float* dout, const float* pre, float* dpre, float* dbias,
                                                 std::int64_t rows, std::int64_t channels) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* const upstream = dout + row * channels;
    const float* const in = pre + row * channels;
    float* const result = dpre + row * channels;
#pragma omp simd
    for (std::int64_t i = 0; i < channels; ++i) result[i] = upstream[i] * activate(in[i]).derivative;
    if (dbias != nullptr) {
#pragma omp simd
      for (std::int64_t i = 0; i < channels; ++i) dbias[i] += result[i];
    }
  }
}

// pre: [rows, 2 channels], gates and values.
template <ActivationParts (*activate)(float)>
[[gnu::always_inline]] inline void gated_forward_rows(float* pre, const float* bias, float* out, std::int64_t rows,
                                                      std::int64_t channels) {
  for (std::int64_t row = 0; row < rows; ++row) {
    float* const gates = pre + row * 2 * channels;
    float* const values = gates + channels;
    float* const result = out + row * channels;
    for (std::int64_t i = 0; bias != nullptr && i < 2 * channels; ++i) gates[i] += bias[i];
#pragma omp simd
    for (std::int64_t i = 0; i < channels; ++i) result[i] = activate(gates[i]).value * values[i];
  }
}

template <ActivationParts (*activate)(float)>
[[gnu::always_inline]] inline void gated_backward_rows(const float* dout, const float* pre, float* dpre, float* dbias,
                                                       std::int64_t rows, std::int64_t channels) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* const upstream = dout + row * channels;
    const float* const gates = pre + row * 2 * channels;
    const float* const values = gates + channels;
    float* const dgates = dpre + row * 2 * channels;
    float* const dvalues = dgates + channels;
#pragma omp simd
    for (std::int64_t i = 0; i < channels; ++i) {
      const ActivationParts gate = activate(gates[i]);
      dgates[i] = upstream[i] * values[i] * gate.derivative;
      dvalues[i] = upstream[i] * gate.value;
    }
    for (std::int64_t i = 0; dbias != nullptr && i < 2 * channels; ++i) dbias[i] += dgates[i];
  }
}

void activation_forward(float* pre, const float* bias, float* out, Activation activation, std::int64_t rows,
                        std::int64_t channels) {
  switch (activation) {
    case Activation::gelu_tanh:
      return forward_rows<gelu_tanh>(pre, bias, out, rows, channels);
    case Activation::gelu:
      return forward_rows<gelu_exact>(pre, bias, out, rows, channels);
    case Activation::relu:
      return forward_rows<relu>(pre, bias, out, rows, channels);
    case Activation::relu_squared:
      return forward_rows<relu_squared>(pre, bias, out, rows, channels);
    case Activation::swiglu:
      return gated_forward_rows<silu>(pre, bias, out, rows, channels);
    case Activation::geglu:
      return gated_forward_rows<gelu_exact>(pre, bias, out, rows, channels);
  }
}

void activation_backward(const float* dout, const float* pre, float* dpre, float* dbias, Activation activation,
                         std::int64_t rows, std::int64_t channels) {
  switch (activation) {
    case Activation::gelu_tanh:
      return backward_rows<gelu_tanh>(dout, pre, dpre, dbias, rows, channels);
    case Activation::gelu:
      return backward_rows<gelu_exact>(dout, pre, dpre, dbias, rows, channels);
    case Activation::relu:
      return backward_rows<relu>(dout, pre, dpre, dbias, rows, channels);
    case Activation::relu_squared:
      return backward_rows<relu_squared>(dout, pre, dpre, dbias, rows, channels);
    case Activation::swiglu:
      return gated_backward_rows<silu>(dout, pre, dpre, dbias, rows, channels);
    case Activation::geglu:
      return gated_backward_rows<gelu_exact>(dout, pre, dpre, dbias, rows, channels);
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
