// What an operation needs to know about the step it is part of, and the weights it works with.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "base/random.h"
#include "config/config.h"

namespace inkling {

// A view into the parameter arena. The gradient is accumulated in place: a backward pass adds to it, unless the context
// says that it overwrites.
struct Weight {
  at::Tensor value;     // undefined where the model has none (bias: false)
  at::Tensor gradient;  // same shape; of the value's dtype or float32; undefined in a model that is not trained

  bool defined() const { return value.defined(); }
  // What the fused operations on the CPU compute with: the value, or a copy where it is bfloat16.
  at::Tensor in_float32() const {
    return defined() && value.scalar_type() != at::kFloat ? value.to(at::kFloat) : value;
  }
};

// One forward pass. Passed by reference through the whole model: it counts the places where dropout is applied, so
// that each gets numbers of its own.
struct Context {
  Kernels kernels = Kernels::fused;
  bool overwrites = false;  // fused only: the gradients of matrices are written, not added to. See ParameterArena
  Recompute recompute = Recompute::none;
  bool decoding = false;  // one token for each of a few rows, no gradient: a row's bits do not depend on the others
  double dropout = 0.0;   // probability of dropping; 0 outside training
  std::uint64_t dropout_key = 0;  // random_key(seed, Purpose::dropout, step), mixed with the micro-batch
  at::Tensor device_dropout_key =
      {};  // the same, int64 [1], for the fused operations on a GPU: they read it when they run
  std::uint64_t dropout_site = 0;

  std::uint64_t next_dropout_key() { return mix64(dropout_key + ++dropout_site * golden_gamma); }
};

}  // namespace inkling
