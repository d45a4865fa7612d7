// AdamW over the arena (Loshchilov, Hutter 2019): clipping by global norm, moments, decay, in two passes over memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "config/config.h"
#include "model/arena.h"

namespace inkling {

class AdamW {
 public:
  // Moments start at zero, on the arena's device. The arena must outlive the optimizer and have gradients.
  AdamW(ParameterArena& arena, const OptimizerConfig& settings, Kernels kernels = Kernels::fused);

  // One update from arena.gradients() at `learning_rate`; returns the gradient's global norm before clipping.
  // A norm that is not finite leaves values and moments as they are.
  double step(double learning_rate);

  // The fused update on a GPU in two halves: what the host says (queued, not waited for), and the update itself, which
  // can be recorded in a graph: nothing in it depends on the host. step() is both, and then waits for the norm.
  void set_learning_rate(double learning_rate);
  void queue_update();
  at::Tensor norm_squared() const { return device_.norm_squared; }  // float32 [1], of the last update

  std::int64_t steps() const;  // updates made; waits for a GPU
  void set_steps(std::int64_t steps);

  at::Tensor moment1() const { return moment1_; }  // [arena.size()] float32
  at::Tensor moment2() const { return moment2_; }

 private:
  void update_range(std::int64_t begin, std::int64_t end, double learning_rate, double weight_decay, double clip);
  void compose_update(std::int64_t begin, std::int64_t end, double learning_rate, double weight_decay, double clip);

  // What the kernels on a GPU read from it. Undefined elsewhere.
  struct OnDevice {
    at::Tensor settings;      // float32 [2, 8]: an AdamWStep for what is decayed, and one for the rest
    at::Tensor steps;         // float64 [1]
    at::Tensor norm_squared;  // float32 [1]
    at::Tensor scratch;
  };

  ParameterArena& arena_;
  OptimizerConfig settings_;
  Kernels kernels_;
  at::Tensor moment1_, moment2_;
  OnDevice device_;
  std::int64_t steps_ = 0;
};

// The Euclidean norm of all elements, the same bits for the same thread count. Works on any device.
double global_norm(const at::Tensor& flat);

}  // namespace inkling
