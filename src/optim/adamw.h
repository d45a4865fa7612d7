// AdamW over the arena (Loshchilov, Hutter 2019): clipping by global norm, moments, decay, in two passes over memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "config/config.h"
#include "model/arena.h"

namespace inkling {

class AdamW {
 public:
  // Moments start at zero, on the arena's device. The arena must outlive the optimizer and be trainable.
  AdamW(ParameterArena& arena, const OptimizerConfig& settings);

  // One update from arena.gradients() at `learning_rate`; returns the gradient's global norm before clipping.
  // A norm that is not finite leaves values and moments as they are.
  double step(double learning_rate);

  std::int64_t steps() const { return steps_; }  // updates made
  void set_steps(std::int64_t steps) { steps_ = steps; }

  at::Tensor moment1() const { return moment1_; }  // [arena.size()] float32
  at::Tensor moment2() const { return moment2_; }

 private:
  void update_range(std::int64_t begin, std::int64_t end, double learning_rate, double weight_decay, double clip);

  ParameterArena& arena_;
  OptimizerConfig settings_;
  at::Tensor moment1_, moment2_;
  std::int64_t steps_ = 0;
};

// The Euclidean norm of all elements, the same bits for the same thread count. Works on any device.
double global_norm(const at::Tensor& flat);

}  // namespace inkling
