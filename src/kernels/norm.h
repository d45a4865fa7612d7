// LayerNorm and RMSNorm with the residual addition in front, forward and backward. `centered`: around the mean;
// `has_weights`: whether these have a gradient.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/kernel_settings.h"

namespace {

using inkling::NormForm;
using inkling::NormKind;

template <bool centered>
void norm_forward_rows(const float* x, const float* branch, float* sum, float* out, float* mean, float* rstd,
                       const float* weight, const float* bias, float epsilon, std::int64_t rows,
                       std::int64_t channels) {
  const float inverse = 1.0f / static_cast<float>(channels);
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* values = x + row * channels;
    float* const result = out + row * channels;
    float total = 0.0f;
    if (branch != nullptr) {
      const float* const added = branch + row * channels;
      float* const written = sum + row * channels;
#pragma omp simd reduction(+ : total)
      for (std::int64_t i = 0; i < channels; ++i) {
        written[i] = values[i] + added[i];
        total += written[i];
      }
      values = written;
    } else if (centered) {
#pragma omp simd reduction(+ : total)
      for (std::int64_t i = 0; i < channels; ++i) total += values[i];
    }
    const float center = centered ? total * inverse : 0.0f;
    float squares = 0.0f;
#pragma omp simd reduction(+ : squares)
    for (std::int64_t i = 0; i < channels; ++i) squares += (values[i] - center) * (values[i] - center);
    const float scale = 1.0f / std::sqrt(squares * inverse + epsilon);
    if (bias != nullptr) {
#pragma omp simd
      for (std::int64_t i = 0; i < channels; ++i) result[i] = (values[i] - center) * scale * weight[i] + bias[i];
    } else {
#pragma omp simd
      for (std::int64_t i = 0; i < channels; ++i) result[i] = (values[i] - center) * scale * weight[i];
    }
    mean[row] = center;
    rstd[row] = scale;
  }
}

void norm_forward(const float* x, const float* branch, float* sum, float* out, float* mean, float* rstd,
                  const float* weight, const float* bias, const NormForm& form, std::int64_t rows,
                  std::int64_t channels) {
  const auto forward = form.kind == NormKind::layernorm ? norm_forward_rows<true> : norm_forward_rows<false>;
  forward(x, branch, sum, out, mean, rstd, weight, bias, form.epsilon, rows, channels);
}

// With n = (sum - mean) * rstd and g = dout * weight: dx = rstd * (g - mean(g) - n * mean(g * n)) + dsum, without
// mean(g) where nothing is centered.
template <bool centered, bool has_weights>
void norm_backward_rows(const float* dout, const float* dsum, const float* sum, const float* mean, const float* rstd,
                        const float* weight, float* dx, float* dweight, float* dbias, std::int64_t rows,
                        std::int64_t channels) {
  const float inverse = 1.0f / static_cast<float>(channels);
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* const upstream = dout + row * channels;
    const float* const values = sum + row * channels;
    float* const result = dx + row * channels;
    const float center = mean[row];
    const float scale = rstd[row];
    float mean_g = 0.0f;
    float mean_gn = 0.0f;
#pragma omp simd reduction(+ : mean_g, mean_gn)
    for (std::int64_t i = 0; i < channels; ++i) {
      const float normalized = (values[i] - center) * scale;
      const float g = upstream[i] * weight[i];
      mean_g += g;
      mean_gn += g * normalized;
      if (has_weights) dweight[i] += upstream[i] * normalized;
    }
    mean_g *= centered ? inverse : 0.0f;
    mean_gn *= inverse;
    if (dbias != nullptr) {
#pragma omp simd
      for (std::int64_t i = 0; i < channels; ++i) dbias[i] += upstream[i];
    }
    const float* const residual = dsum == nullptr ? nullptr : dsum + row * channels;
    if (residual != nullptr) {
#pragma omp simd
      for (std::int64_t i = 0; i < channels; ++i) {
        const float normalized = (values[i] - center) * scale;
        result[i] = residual[i] + scale * (upstream[i] * weight[i] - mean_g - normalized * mean_gn);
      }
    } else {
#pragma omp simd
      for (std::int64_t i = 0; i < channels; ++i) {
        const float normalized = (values[i] - center) * scale;
        result[i] = scale * (upstream[i] * weight[i] - mean_g - normalized * mean_gn);
      }
    }
  }
}

void norm_backward(const float* dout, const float* dsum, const float* sum, const float* mean, const float* rstd,
                   const float* weight, float* dx, float* dweight, float* dbias, const NormForm& form,
                   std::int64_t rows, std::int64_t channels) {
  const auto with_weights =
      form.kind == NormKind::layernorm ? norm_backward_rows<true, true> : norm_backward_rows<false, true>;
  const auto without =
      form.kind == NormKind::layernorm ? norm_backward_rows<true, false> : norm_backward_rows<false, false>;
  const auto backward = dweight == nullptr ? without : with_weights;
  backward(dout, dsum, sum, mean, rstd, weight, dx, dweight, dbias, rows, channels);
}

}  // namespace
