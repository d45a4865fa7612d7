// AdamW over the arena (Loshchilov, Hutter 2019): clipping by global norm, moments, decay, in two passes over memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "config/config.h"
#include "model/arena.h"

namespace inkling {

// A number that the optimizer keeps for each element of the arena, and that checkpoints save under this name.
struct OptimizerState {
  std::string name;  // "moment1"
  at::Tensor flat;   // [arena.size()] float32
};

class Optimizer {
 public:
  // Moments start at zero, on the arena's device. The arena must outlive the optimizer and have gradients.
  Optimizer(ParameterArena& arena, const OptimizerConfig& settings, const Backend& backend);

  // The host sets the schedule's rate, which each group follows up to a peak of its own. update() can be recorded,
  // because nothing in it depends on the host: it changes values and moments from gradients, and leaves both as they are
  // if a gradient is not finite.
  void set_learning_rate(double learning_rate);
  void update();

  // Returns the square of the last gradient's global norm before clipping: float64 [1] on the arena's device.
  at::Tensor norm_squared() const { return norm_squared_; }

  std::int64_t steps() const;  // updates made; waits for a GPU
  void set_steps(std::int64_t steps);

  const std::vector<OptimizerState>& states() const { return states_; }

 private:
  ParameterArena& arena_;
  OptimizerConfig config_;
  const Backend& backend_;
  std::vector<OptimizerState> states_;
  at::Tensor settings_;      // float64 [groups, 8]: AdamWNumbers
  at::Tensor shares_;        // float64 [groups]: what a group's rate is to the schedule's
  at::Tensor steps_;         // float64 [1]
  at::Tensor norm_squared_;  // float64 [1]
};

}  // namespace inkling
