// The activations of the MLP and their derivatives, in registers.
#pragma once

#include <cuda_runtime.h>

#include <cmath>

#include "kernels/kernel_settings.h"

namespace inkling::cuda {

struct ActivationParts {
  float value, derivative;
};

// The same formulas as kernels/activation.h. __expf and __fdividef: a few units in the last place.
__device__ inline ActivationParts exact_gelu(float x) {
  const float magnitude = fabsf(x) * 0.70710678118654752f;
  const float density = __expf(-magnitude * magnitude);
  const float t = __fdividef(1.0f, 1.0f + 0.3275911f * magnitude);
  float p = 1.061405429f;
  p = p * t - 1.453152027f;
  p = p * t + 1.421413741f;
  p = p * t - 0.284496736f;
  p = p * t + 0.254829592f;
  const float tail = 0.5f * p * t * density;
  const float cumulative = x < 0.0f ? tail : 1.0f - tail;
  return {x * cumulative, cumulative + x * density * 0.3989422804014327f};
}

__device__ inline ActivationParts activate(float x, Activation activation) {
  switch (activation) {
    case Activation::relu:
      return {fmaxf(x, 0.0f), x > 0.0f ? 1.0f : 0.0f};
    case Activation::relu_squared: {
      const float positive = fmaxf(x, 0.0f);
      return {positive * positive, 2.0f * positive};
    }
    case Activation::swiglu: {  // of a gate
      const float logistic = __fdividef(1.0f, 1.0f + __expf(-x));
      return {x * logistic, logistic + x * logistic * (1.0f - logistic)};
    }
    case Activation::gelu_tanh: {
      const float u2 = 1.5957691216057308f * (x + 0.044715f * x * x * x);
      const float logistic = __fdividef(1.0f, 1.0f + __expf(-u2));
      const float du2 = 1.5957691216057308f * (1.0f + 3.0f * 0.044715f * x * x);
      return {x * logistic, logistic + x * logistic * (1.0f - logistic) * du2};
    }
    case Activation::gelu:
    case Activation::geglu:  // of a gate
      return exact_gelu(x);
  }
  return {};
}

}  // namespace inkling::cuda
