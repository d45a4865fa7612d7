#include "optim/optimizer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <ATen/record_function.h>

namespace inkling {
namespace {

// Columns of the settings that change from step to step, in the order of AdamWNumbers.
constexpr std::int64_t rate_column = 0, correction1_column = 6, correction2_column = 7;

// Returns the learning rate of a group at the schedule's peak.
double peak_of(ParameterGroup group, const OptimizerConfig& config) {
  switch (group) {
    case ParameterGroup::embedding:
      return config.embedding_learning_rate.value_or(config.learning_rate);
    case ParameterGroup::matrix:
      return config.learning_rate;
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

at::Tensor numbers_of(const OptimizerConfig& config) {
  const at::Tensor all = at::zeros({static_cast<std::int64_t>(all_parameter_groups.size()), 8}, at::kDouble);
  for (const ParameterGroup group : all_parameter_groups) {
    const double decay = group == ParameterGroup::vector ? 0.0 : config.weight_decay;
    all.select(0, static_cast<std::int64_t>(group))
        .copy_(at::tensor({0.0, config.beta1, config.beta2, config.epsilon, decay, config.grad_clip, 0.0, 0.0},
                          at::kDouble));
  }
  return all;
}

}  // namespace

Optimizer::Optimizer(ParameterArena& arena, const OptimizerConfig& settings, const Backend& backend)
    : arena_(arena),
      config_(settings),
      backend_(backend),
      states_{{"moment1", at::zeros_like(arena.values())}, {"moment2", at::zeros_like(arena.values())}},
      settings_(numbers_of(settings).to(arena.values().device())),
      shares_(shares_of(settings).to(arena.values().device())),
      steps_(at::zeros({1}, arena.values().options().dtype(at::kDouble))),
      norm_squared_(at::zeros_like(steps_)) {}

std::int64_t Optimizer::steps() const { return static_cast<std::int64_t>(steps_.item<double>()); }

void Optimizer::set_steps(std::int64_t steps) { steps_.fill_(static_cast<double>(steps)); }

void Optimizer::set_learning_rate(double learning_rate) {
  settings_.select(1, rate_column).copy_(shares_.mul(learning_rate));
}

void Optimizer::update() {
  RECORD_FUNCTION("adamw", std::vector<c10::IValue>());
  const at::Tensor norm_squared = backend_.sum_of_squares(arena_.gradients());
  norm_squared_.copy_(norm_squared);
  steps_.add_(norm_squared.isfinite());
  const auto correct = [&](std::int64_t column, double beta) {  // 1 - beta^t, for every group
    settings_.select(1, column).copy_(at::pow(beta, steps_).neg_().add_(1.0).expand({settings_.size(0)}));
  };
  correct(correction1_column, config_.beta1);
  correct(correction2_column, config_.beta2);
  const at::Tensor values = arena_.values(), compute = arena_.compute_values();
  for (const ParameterGroup group : all_parameter_groups) {
    const auto [begin, end] = arena_.range(group);
    if (begin == end) continue;
    const auto part = [begin = begin, end = end](const at::Tensor& flat) { return flat.slice(0, begin, end); };
    backend_.adamw({.value = part(values),
                    .gradient = part(arena_.gradients()),
                    .moment1 = part(states_[0].flat),
                    .moment2 = part(states_[1].flat),
                    .compute = compute.is_same(values) ? at::Tensor() : part(compute),
                    .settings = settings_.select(0, static_cast<std::int64_t>(group))},
                   norm_squared);
  }
}

}  // namespace inkling
