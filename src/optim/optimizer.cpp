#include "optim/optimizer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "base/strings.h"
#include "optim/muon.h"

namespace inkling {

namespace {

// Columns of the settings that change from step to step, in the order of AdamWNumbers. MuonNumbers has the first alone.
constexpr std::int64_t rate_column = 0, correction1_column = 6, correction2_column = 7;

// Returns the learning rate of a group at the schedule's peak.
double peak_of(ParameterGroup group, const OptimizerConfig& config) {
  switch (group) {
    case ParameterGroup::embedding:
      return config.embedding_learning_rate.value_or(config.learning_rate);
    case ParameterGroup::matrix:
      return config.name == OptimizerName::muon ? config.muon.learning_rate : config.learning_rate;
    case ParameterGroup::head:
      return config.head_learning_rate.value_or(config.learning_rate);
    case ParameterGroup::vector:
      return config.vector_learning_rate.value_or(config.learning_rate);
  }
  return config.learning_rate;
}

// Returns what each group's rate is to the schedule's: float64 [groups].
at::Tensor shares_of(const OptimizerConfig& config) {
  std::vector<double> shares;
  for (const ParameterGroup group : all_parameter_groups) {
    shares.push_back(peak_of(group, config) / config.learning_rate);
  }
  return at::tensor(shares, at::kDouble);
}

bool is_by_muon(ParameterGroup group, OptimizerName name) {
  return name == OptimizerName::muon && group == ParameterGroup::matrix;
}

// AdamWNumbers of a group, or MuonNumbers with zeros behind.
at::Tensor numbers_of(ParameterGroup group, const OptimizerConfig& config) {
  if (is_by_muon(group, config.name)) {
    const MuonConfig& muon = config.muon;
    return at::tensor({0.0, muon.momentum, muon.weight_decay, config.grad_clip, 0.0, 0.0, 0.0, 0.0}, at::kDouble);
  }
  const double decay = group == ParameterGroup::vector ? 0.0 : config.weight_decay;
  return at::tensor({0.0, config.beta1, config.beta2, config.epsilon, decay, config.grad_clip, 0.0, 0.0}, at::kDouble);
}

at::Tensor numbers_of(const OptimizerConfig& config) {
  const at::Tensor all = at::zeros({static_cast<std::int64_t>(all_parameter_groups.size()), 8}, at::kDouble);
  for (const ParameterGroup group : all_parameter_groups) {
    all.select(0, static_cast<std::int64_t>(group)).copy_(numbers_of(group, config));
  }
  return all;
}

std::vector<OptimizerState> zero_states(OptimizerName name, const ParameterArena& arena) {
  std::vector<OptimizerState> states = optimizer_states(name, arena);
  for (OptimizerState& state : states) {
    state.flat = at::zeros({state.range.end - state.range.begin}, arena.values().options());
  }
  return states;
}

at::Tensor part_of(const at::Tensor& flat, const ParameterRange& range) {
  return flat.slice(0, range.begin, range.end);
}

}  // namespace

std::vector<OptimizerState> optimizer_states(OptimizerName name, const ParameterLayout& layout) {
  const ParameterRange all = {0, layout.size()};
  if (name == OptimizerName::adamw) return {{"moment1", all}, {"moment2", all}};
  const ParameterRange matrices = layout.range(ParameterGroup::matrix);
  const ParameterRange before = {0, matrices.begin}, behind = {matrices.end, layout.size()};
  return {{"moment1", before}, {"moment2", before}, {"momentum", matrices}, {"moment1", behind}, {"moment2", behind}};
}

std::uint64_t optimizer_bytes(OptimizerName name, const ParameterLayout& layout, at::ScalarType compute_dtype) {
  std::uint64_t elements = 0;
  for (const OptimizerState& state : optimizer_states(name, layout)) {
    elements += static_cast<std::uint64_t>(state.range.end - state.range.begin);
  }
  const std::uint64_t bytes = elements * sizeof(float);
  if (name == OptimizerName::adamw) return bytes;
  return bytes + static_cast<std::uint64_t>(muon_memory_elements(layout)) * c10::elementSize(compute_dtype);
}

Optimizer::Optimizer(ParameterArena& arena, const OptimizerConfig& settings, const Backend& backend)
    : arena_(arena),
      config_(settings),
      backend_(backend),
      states_(zero_states(settings.name, arena)),
      settings_(numbers_of(settings).to(arena.values().device())),
      shares_(shares_of(settings).to(arena.values().device())),
      steps_(at::zeros({1}, arena.values().options().dtype(at::kDouble))),
      norm_squared_(at::zeros_like(steps_)) {
  if (settings.name == OptimizerName::muon) muon_ = make_muon_range();
}

at::Tensor Optimizer::state(std::string_view name, const ParameterRange& range) const {
  for (const OptimizerState& state : states_) {
    if (state.name != name || range.begin < state.range.begin || state.range.end < range.end) continue;
    return state.flat.slice(0, range.begin - state.range.begin, range.end - state.range.begin);
  }
  throw Error::internal(str("the optimizer has no ", name, " of the elements from ", range.begin, " on"));
}

MuonRange Optimizer::make_muon_range() const {
  const ParameterRange range = arena_.range(ParameterGroup::matrix);
  const at::Tensor compute = arena_.compute_values();
  return {.value = part_of(arena_.values(), range),
          .gradient = part_of(arena_.gradients(), range),
          .momentum = state("momentum", range),
          .compute = compute.is_same(arena_.values()) ? at::Tensor() : part_of(compute, range),
          .settings = settings_of(ParameterGroup::matrix),
          .matrices = muon_matrices(arena_),
          .newton_schulz_steps = config_.muon.newton_schulz_steps,
          .memory = backend_.muon_works_in_its_memory ? muon_memory(arena_, compute.options()) : MuonMemory()};
}

std::int64_t Optimizer::steps() const { return static_cast<std::int64_t>(steps_.item<double>()); }

void Optimizer::set_steps(std::int64_t steps) { steps_.fill_(static_cast<double>(steps)); }

void Optimizer::set_learning_rate(double learning_rate) {
  settings_.select(1, rate_column).copy_(shares_.mul(learning_rate));
}

void Optimizer::count_step(const at::Tensor& norm_squared) {
  steps_.add_(norm_squared.isfinite());
  const auto correct = [&](std::int64_t column, double beta) {  // 1 - beta^t, for every group
    settings_.select(1, column).copy_(at::pow(beta, steps_).neg_().add_(1.0).expand({settings_.size(0)}));
  };
  correct(correction1_column, config_.beta1);
  correct(correction2_column, config_.beta2);
}

void Optimizer::update_by_adamw(ParameterGroup group, const at::Tensor& norm_squared) {
  const ParameterRange range = arena_.range(group);
  const at::Tensor values = arena_.values(), compute = arena_.compute_values();
  backend_.adamw({.value = part_of(values, range),
                  .gradient = part_of(arena_.gradients(), range),
                  .moment1 = state("moment1", range),
                  .moment2 = state("moment2", range),
                  .compute = compute.is_same(values) ? at::Tensor() : part_of(compute, range),
                  .settings = settings_of(group)},
                 norm_squared);
}

void Optimizer::update() {
  RECORD_FUNCTION(config_.name == OptimizerName::muon ? "muon" : "adamw", std::vector<c10::IValue>());
  const at::Tensor norm_squared = backend_.sum_of_squares(arena_.gradients());
  norm_squared_.copy_(norm_squared);
  count_step(norm_squared);
  for (const ParameterGroup group : all_parameter_groups) {
    if (arena_.range(group).begin == arena_.range(group).end) continue;
    if (is_by_muon(group, config_.name)) {
      backend_.muon(muon_, norm_squared);
    } else {
      update_by_adamw(group, norm_squared);
    }
  }
}

double learning_rate(std::int64_t step, const OptimizerConfig& optimizer, const ScheduleConfig& schedule,
                     std::int64_t max_steps) {
  const double peak = optimizer.learning_rate;
  if (step < schedule.warmup_steps) {
    return peak * static_cast<double>(step + 1) / static_cast<double>(schedule.warmup_steps + 1);
  }
  const std::int64_t decay_steps = schedule.decay_steps.value_or(max_steps);
  const auto now = static_cast<double>(step), end = static_cast<double>(decay_steps);
  const auto warmed_up = static_cast<double>(schedule.warmup_steps);
  // Returns the rate on the way from the peak, at step `begin`, to the least one; `share` is what is left of the way
  // up.
  const auto falling = [&](double begin, auto share) {
    if (now >= end) return schedule.min_learning_rate;
    if (now < begin) return peak;
    return schedule.min_learning_rate + share((now - begin) / (end - begin)) * (peak - schedule.min_learning_rate);
  };
  const auto line = [](double progress) { return 1.0 - progress; };
  switch (schedule.name) {
    case ScheduleName::cosine:
      return falling(warmed_up, [](double progress) { return 0.5 * (1.0 + std::cos(std::numbers::pi * progress)); });
    case ScheduleName::linear:
      return falling(warmed_up, line);
    case ScheduleName::wsd:
      return falling(std::max(warmed_up, (1.0 - schedule.decay_fraction) * end), line);
    case ScheduleName::constant:
      return peak;
  }
  throw Error::internal("an unknown schedule");
}

}  // namespace inkling
