// The optimizer over the arena: AdamW (Loshchilov, Hutter 2019), or Muon (Jordan et al. 2024) for the hidden matrices
// and AdamW for the rest. Clipping by global norm, states and decay are passes over flat memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "config/config.h"
#include "model/arena.h"

namespace inkling {

// A number that the optimizer keeps for each element of a range of the arena, and that checkpoints save under this
// name.
struct OptimizerState {
  std::string name;  // "moment1"
  ParameterRange range = {};
  at::Tensor flat = {};  // [range.end - range.begin] float32

  bool has(const Parameter& parameter) const {
    return range.begin <= parameter.offset && parameter.offset + parameter.count <= range.end;
  }
  at::Tensor part_of(const Parameter& parameter) const { return parameter.part_of(flat, range.begin); }
};

// Returns the states that an optimizer keeps, without their memory: both moments of what AdamW updates, and the
// momentum of what Muon does.
std::vector<OptimizerState> optimizer_states(OptimizerName name, const ParameterLayout& layout);

// Returns the bytes of these states, and of what a step works in. compute_dtype: that of the arena.
std::uint64_t optimizer_bytes(OptimizerName name, const ParameterLayout& layout, at::ScalarType compute_dtype);

class Optimizer {
 public:
  // States start at zero, on the arena's device. The arena must outlive the optimizer and have gradients.
  Optimizer(ParameterArena& arena, const OptimizerConfig& settings, const Backend& backend);

  // The host sets the schedule's rate, which each group follows up to a peak of its own. update() can be recorded,
  // because nothing in it depends on the host: it changes values and states from gradients, and leaves both as they are
  // if a gradient is not finite.
  void set_learning_rate(double learning_rate);
  void update();

  // Returns the square of the last gradient's global norm before clipping: float64 [1] on the arena's device.
  at::Tensor norm_squared() const { return norm_squared_; }

  std::int64_t steps() const;  // updates made; waits for a GPU
  void set_steps(std::int64_t steps);

  OptimizerName name() const { return config_.name; }
  const std::vector<OptimizerState>& states() const { return states_; }

 private:
  void count_step(const at::Tensor& norm_squared);
  void update_by_adamw(ParameterGroup group, const at::Tensor& norm_squared);
  // Returns the part of a state, and of the settings, that belongs to a group.
  at::Tensor state(std::string_view name, const ParameterRange& range) const;
  at::Tensor settings_of(ParameterGroup group) const { return settings_.select(0, static_cast<std::int64_t>(group)); }
  MuonRange make_muon_range() const;

  ParameterArena& arena_;
  OptimizerConfig config_;
  const Backend& backend_;
  std::vector<OptimizerState> states_;
  at::Tensor settings_;      // float64 [groups, 8]: AdamWNumbers, or MuonNumbers
  at::Tensor shares_;        // float64 [groups]: what a group's rate is to the schedule's
  at::Tensor steps_;         // float64 [1]
  at::Tensor norm_squared_;  // float64 [1]
  MuonRange muon_;           // of the hidden matrices; unused by AdamW
};

// Returns the rate of a step (from 0). It rises along a line to learning_rate over warmup_steps. Then `cosine` falls
// along half a cosine (Loshchilov, Hutter 2017; nanoGPT's form), `linear` along a line, and `wsd` stays at the peak and
// falls along a line over the last decay_fraction of decay_steps (Hu et al. 2024). All three end at min_learning_rate
// at decay_steps and stay there. `constant` is warm-up only.
double learning_rate(std::int64_t step, const OptimizerConfig& optimizer, const ScheduleConfig& schedule,
                     std::int64_t max_steps);

}  // namespace inkling
