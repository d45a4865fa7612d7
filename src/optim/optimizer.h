// The optimizer over the arena: AdamW (Loshchilov, Hutter 2019), or Muon (Jordan et al. 2024) for the hidden matrices
// and AdamW for the rest. Clipping by global norm, states and decay are passes over flat memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "config/config.h"
#include "model/arena.h"

namespace inkling {

// A tensor that is kept for a parameter from step to step. Checkpoints save it as "NAME.transformer.PARAMETER".
struct OptimizerState {
  std::string name;       // "moment1"
  std::string parameter;  // as the arena calls it
  std::vector<std::int64_t> shape;
  at::Tensor value =
      {};  // float32, on the arena's device; undefined before begin(), and where a part of it is elsewhere

  // What of it this rank keeps: elements, counted from the parameter's first, in flat memory.
  struct Kept {
    ParameterRange elements;
    at::Tensor values;
  };
  std::vector<Kept> kept = {};
};

// A part of an update, which changes the values and states of this range alone: parts may run at the same time.
struct UpdatePart {
  ParameterRange range;
  double flops = 0;  // of its products
  std::function<void(const at::Tensor& norm_squared)> update;
};

// How an update is cut into parts: as few as there can be; as few, but with each of Muon's matrices by itself, so that
// its bits do not depend on what else a rank owns; or into parts of about elements_of_block, for workers.
enum class UpdateCut { few, by_matrices, by_blocks };

// How some groups of parameters are updated, all that there is to know of it: what is kept and taken for it, and the
// update. AdamW and Muon are two of them.
class UpdateRule {
 public:
  virtual ~UpdateRule() = default;

  virtual std::vector<ParameterGroup> groups() const = 0;  // in the order of the arena, none left out between them
  virtual std::vector<OptimizerState> states() const = 0;
  // Of the states, where so many ranks share them, and of what a step works in. compute_dtype: that of the arena.
  // workers: 0 where it is cut into few parts.
  virtual std::uint64_t bytes(at::ScalarType compute_dtype, int workers, int ranks) const = 0;
  virtual double flops() const = 0;  // of an update's products
  // The rate at the schedule's peak, and the numbers that the update finds in its settings, the rate in front.
  virtual double peak(ParameterGroup group) const = 0;
  virtual std::vector<double> numbers(ParameterGroup group) const = 0;

  // Returns the smallest parts, without their updates, that different ranks can make: in the order of the arena, no
  // element left out. Their products are as many as those of the parts of an update that is shared out.
  virtual std::vector<UpdatePart> pieces() const = 0;

  // Takes memory for what is `owned`, some of these pieces, with states of zero, and returns their update. settings:
  // float64 [groups, 8] on the device, a row for each ParameterGroup. The arena must outlive the rule.
  virtual std::vector<UpdatePart> begin(ParameterArena& arena, const Backend& backend, const at::Tensor& settings,
                                        const ParameterRanges& owned, UpdateCut cut) = 0;
};

// Lists a state that is kept for every element of these groups, as a rule's states(). kept: what of it this rank keeps,
// for `owned`, or undefined.
std::vector<OptimizerState> list_flat_state(const std::string& name, const ParameterLayout& layout,
                                            std::span<const ParameterGroup> groups, const at::Tensor& kept,
                                            const ParameterRanges& owned);

// Returns the rules that make up an optimizer, in the order of the arena: the one place that knows what each consists
// of. The layout must outlive them.
std::vector<std::unique_ptr<UpdateRule>> update_rules(const OptimizerConfig& config, const ParameterLayout& layout);

// Return what these rules keep and take together.
std::vector<OptimizerState> optimizer_states(const OptimizerConfig& config, const ParameterLayout& layout);
std::uint64_t optimizer_bytes(const OptimizerConfig& config, const ParameterLayout& layout,
                              at::ScalarType compute_dtype, int workers = 0, int ranks = 1);
double optimizer_flops(const OptimizerConfig& config, const ParameterLayout& layout);
// Returns "muon, 0.02 for hidden matrices; adamw, 0.004, for embeddings 0.01": the peaks of the learning rate.
std::string describe_optimizer(const OptimizerConfig& config, const ParameterLayout& layout);

// Returns what each of so many ranks updates: pieces of the rules, whole matrices of Muon with about as many products
// for each rank, and the rest such that each has about as many elements.
std::vector<ParameterRanges> divide_update(const OptimizerConfig& config, const ParameterLayout& layout, int ranks);

class Optimizer {
 public:
  // States start at zero, on the arena's device. The arena must outlive the optimizer and have gradients.
  // owned: what it updates, of divide_update(); none: all.
  Optimizer(ParameterArena& arena, const OptimizerConfig& settings, const Backend& backend,
            UpdateCut cut = UpdateCut::few, std::optional<ParameterRanges> owned = {});

  // The host sets the schedule's rate, which each group follows up to a peak of its own. update() can be recorded,
  // because nothing in it depends on the host: it changes values and states from gradients, and leaves both as they are
  // if a gradient is not finite. norm_squared: of the whole gradient, which it computes where that is not given.
  void set_learning_rate(double learning_rate);
  void update(at::Tensor norm_squared = {});

  // The same for workers, of an update cut by blocks: begin_update() is told the gradient's norm, and then each part is
  // called once with it, in any thread. The parts with most to do come first.
  void begin_update(const at::Tensor& norm_squared);
  std::span<const UpdatePart> parts() const { return parts_; }

  // Returns the square of the last gradient's global norm before clipping: float64 [1] on the arena's device.
  at::Tensor norm_squared() const { return norm_squared_; }

  std::int64_t steps() const;  // updates made; waits for a GPU
  void set_steps(std::int64_t steps);

  OptimizerName name() const { return config_.name; }
  std::vector<OptimizerState> states() const;

 private:
  ParameterArena& arena_;
  OptimizerConfig config_;
  const Backend& backend_;
  std::vector<std::unique_ptr<UpdateRule>> rules_;
  std::vector<UpdatePart> parts_;
  at::Tensor settings_;      // float64 [groups, 8]: UpdateRule::numbers()
  at::Tensor shares_;        // float64 [groups]: what a group's rate is to the schedule's
  at::Tensor steps_;         // float64 [1]
  at::Tensor betas_;         // float64 [2], of the moments
  at::Tensor norm_squared_;  // float64 [1]
};

// What a checkpoint keeps of an optimizer.
struct OptimizerStates {
  OptimizerName name = OptimizerName::adamw;
  std::int64_t steps = 0;
  std::vector<OptimizerState> all;
  // Where ranks share the update: gathers a state, in its shape in rank 0; all ranks call it for each state, in order.
  std::function<at::Tensor(const OptimizerState& state)> gather = {};

  OptimizerStates(const Optimizer& optimizer);  // NOLINT(google-explicit-constructor): that of one without others
};

// Returns the rate of a step (from 0). It rises along a line to learning_rate over warmup_steps. Then `cosine` falls
// along half a cosine (Loshchilov, Hutter 2017; nanoGPT's form), `linear` along a line, and `wsd` stays at the peak and
// falls along a line over the last decay_fraction of decay_steps (Hu et al. 2024). All three end at min_learning_rate
// at decay_steps and stay there. `constant` is warm-up only.
double learning_rate(std::int64_t step, const OptimizerConfig& optimizer, const ScheduleConfig& schedule,
                     std::int64_t max_steps);

}  // namespace inkling
