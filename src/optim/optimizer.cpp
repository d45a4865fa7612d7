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
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "optim/muon.h"
#include "runtime/parallel.h"

namespace inkling {
namespace {

// Columns of the settings that change from step to step, in the order of AdamWNumbers. MuonNumbers has the first alone.
constexpr std::int64_t rate_column = 0, corrections_column = 6;  // of both moments, side by side

// Returns the rate that the settings give a group of its own.
std::optional<double> own_peak(ParameterGroup group, const OptimizerConfig& config) {
  switch (group) {
    case ParameterGroup::embedding:
      return config.embedding_learning_rate;
    case ParameterGroup::matrix:
      return std::nullopt;
    case ParameterGroup::head:
      return config.head_learning_rate;
    case ParameterGroup::vector:
      return config.vector_learning_rate;
  }
  return std::nullopt;
}

class AdamW final : public UpdateRule {
 public:
  AdamW(const OptimizerConfig& config, const ParameterLayout& layout, std::vector<ParameterGroup> groups)
      : config_(config), layout_(layout), groups_(std::move(groups)) {}

  std::vector<ParameterGroup> groups() const override { return groups_; }

  std::vector<OptimizerState> states() const override {
    std::vector<OptimizerState> all = list_flat_state("moment1", layout_, groups_, moment1_, owned_);
    for (OptimizerState& state : list_flat_state("moment2", layout_, groups_, moment2_, owned_))
      all.push_back(std::move(state));
    return all;
  }

  std::uint64_t bytes(at::ScalarType /*compute_dtype*/, int /*workers*/, int ranks) const override {
    return 2 * static_cast<std::uint64_t>(range().count() / ranks) * sizeof(float);
  }

  double flops() const override { return 0.0; }

  double peak(ParameterGroup group) const override { return own_peak(group, config_).value_or(config_.learning_rate); }

  std::vector<double> numbers(ParameterGroup group) const override {
    const double decay = group == ParameterGroup::vector ? 0.0 : config_.weight_decay;
    return {0.0, config_.beta1, config_.beta2, config_.epsilon, decay, config_.grad_clip, 0.0, 0.0};
  }

  std::vector<UpdatePart> pieces() const override {
    std::vector<UpdatePart> all;
    for (const ParameterRange& block : layout_.blocks()) {
      if (range().begin <= block.begin && block.end <= range().end) all.push_back({.range = block, .update = {}});
    }
    return all;
  }

  std::vector<UpdatePart> begin(ParameterArena& arena, const Backend& backend, const at::Tensor& settings,
                                const ParameterRanges& owned, UpdateCut cut) override {
    owned_ = owned.within(range());
    moment1_ = at::zeros({owned_.count()}, arena.gradients().options());
    moment2_ = at::zeros_like(moment1_);
    std::vector<UpdatePart> parts;
    for (const ParameterGroup group : groups_) {
      const at::Tensor row = settings.select(0, static_cast<std::int64_t>(group));
      for (const auto& [begin, end] : owned_.within(layout_.range(group)).ranges) {
        const std::int64_t length = cut == UpdateCut::by_blocks ? elements_of_block : end - begin;
        for (std::int64_t first = begin; first < end; first += length) {
          const ParameterRange part = {first, std::min(end, first + length)};
          const auto update = [range = range_of(part, arena, row), &backend](const at::Tensor& norm_squared) {
            backend.adamw(range, norm_squared);
          };
          parts.push_back({.range = part, .update = update});
        }
      }
    }
    return parts;
  }

 private:
  ParameterRange range() const { return {layout_.range(groups_.front()).begin, layout_.range(groups_.back()).end}; }

  AdamWRange range_of(const ParameterRange& part, const ParameterArena& arena, const at::Tensor& settings) const {
    const auto part_of = [&](const at::Tensor& flat) { return flat.slice(0, part.begin, part.end); };
    return {.value = arena.master(part),
            .gradient = part_of(arena.gradients()),
            .moment1 = owned_.part_of(moment1_, part),
            .moment2 = owned_.part_of(moment2_, part),
            .compute = arena.has_copies() ? part_of(arena.compute_values()) : at::Tensor(),
            .settings = settings};
  }

  const OptimizerConfig config_;
  const ParameterLayout& layout_;
  const std::vector<ParameterGroup> groups_;
  ParameterRanges owned_;         // of range()
  at::Tensor moment1_, moment2_;  // float32, of these
};

at::Tensor settings_of(const std::vector<std::unique_ptr<UpdateRule>>& rules) {
  const at::Tensor all = at::zeros({static_cast<std::int64_t>(all_parameter_groups.size()), 8}, at::kDouble);
  for (const auto& rule : rules) {
    for (const ParameterGroup group : rule->groups()) {
      const at::Tensor numbers = at::tensor(rule->numbers(group), at::kDouble);
      all.select(0, static_cast<std::int64_t>(group)).narrow(0, 0, numbers.size(0)).copy_(numbers);
    }
  }
  return all;
}

// Returns what each group's rate is to the schedule's: float64 [groups].
at::Tensor shares_of(const std::vector<std::unique_ptr<UpdateRule>>& rules, double learning_rate) {
  std::vector<double> shares(all_parameter_groups.size());
  for (const auto& rule : rules) {
    for (const ParameterGroup group : rule->groups()) {
      shares[static_cast<std::size_t>(group)] = rule->peak(group) / learning_rate;
    }
  }
  return at::tensor(shares, at::kDouble);
}

void append_states(std::vector<OptimizerState>& all, const UpdateRule& rule) {
  for (OptimizerState& state : rule.states()) all.push_back(std::move(state));
}

}  // namespace

std::vector<OptimizerState> list_flat_state(const std::string& name, const ParameterLayout& layout,
                                            std::span<const ParameterGroup> groups, const at::Tensor& kept,
                                            const ParameterRanges& owned) {
  std::vector<OptimizerState> all;
  for (const Parameter& parameter : layout.parameters()) {
    if (std::find(groups.begin(), groups.end(), parameter.spec.group) == groups.end()) continue;
    OptimizerState& state = all.emplace_back(OptimizerState{name, parameter.spec.name, parameter.spec.shape});
    if (!kept.defined()) continue;
    const ParameterRange whole = {parameter.offset, parameter.offset + parameter.count};
    for (const ParameterRange& part : owned.within(whole).ranges) {
      const at::Tensor values = owned.part_of(kept, part);
      if (part.count() == parameter.count) state.value = values.view(parameter.spec.shape);
      state.kept.push_back({{part.begin - whole.begin, part.end - whole.begin}, values});
    }
  }
  return all;
}

std::vector<std::unique_ptr<UpdateRule>> update_rules(const OptimizerConfig& config, const ParameterLayout& layout) {
  using Group = ParameterGroup;
  const auto adamw = [&](const std::vector<Group>& groups) { return std::make_unique<AdamW>(config, layout, groups); };
  std::vector<std::unique_ptr<UpdateRule>> rules;
  switch (config.name) {
    case OptimizerName::adamw:
      rules.push_back(adamw({Group::embedding, Group::matrix, Group::head, Group::vector}));
      break;
    case OptimizerName::muon:
      rules.push_back(adamw({Group::embedding}));
      rules.push_back(make_muon(config, layout));
      rules.push_back(adamw({Group::head, Group::vector}));
      break;
  }
  return rules;
}

std::vector<OptimizerState> optimizer_states(const OptimizerConfig& config, const ParameterLayout& layout) {
  std::vector<OptimizerState> all;
  for (const auto& rule : update_rules(config, layout)) append_states(all, *rule);
  return all;
}

std::uint64_t optimizer_bytes(const OptimizerConfig& config, const ParameterLayout& layout,
                              at::ScalarType compute_dtype, int workers, int ranks) {
  std::uint64_t bytes = 0;
  for (const auto& rule : update_rules(config, layout)) bytes += rule->bytes(compute_dtype, workers, ranks);
  return bytes;
}

double optimizer_flops(const OptimizerConfig& config, const ParameterLayout& layout) {
  double flops = 0.0;
  for (const auto& rule : update_rules(config, layout)) flops += rule->flops();
  return flops;
}

std::string describe_optimizer(const OptimizerConfig& config, const ParameterLayout& layout) {
  std::string words;
  if (config.name == OptimizerName::muon) words = describe_muon(config.muon) + "; ";
  words += str("adamw, ", format_shortest(config.learning_rate));
  for (const auto& [group, name] : {std::pair(ParameterGroup::embedding, "embeddings"),
                                    {ParameterGroup::head, "the head"},
                                    {ParameterGroup::vector, "vectors"}}) {
    const auto [begin, end] = layout.range(group);
    if (own_peak(group, config) && begin < end) {
      words += str(", for ", name, " ", format_shortest(*own_peak(group, config)));
    }
  }
  return words;
}

std::vector<ParameterRanges> divide_update(const OptimizerConfig& config, const ParameterLayout& layout, int ranks) {
  std::vector<UpdatePart> pieces;
  for (const auto& rule : update_rules(config, layout)) {
    for (UpdatePart& piece : rule->pieces()) pieces.push_back(std::move(piece));
  }
  const auto count = static_cast<std::size_t>(ranks);
  std::vector<double> flops(count);
  std::vector<std::int64_t> elements(count);
  std::vector<std::size_t> owner(pieces.size()), heavy;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].flops > 0) heavy.push_back(i);
  }
  // The heaviest first, to whoever has least.
  std::stable_sort(heavy.begin(), heavy.end(),
                   [&](std::size_t a, std::size_t b) { return pieces[a].flops > pieces[b].flops; });
  for (const std::size_t i : heavy) {
    owner[i] = static_cast<std::size_t>(std::min_element(flops.begin(), flops.end()) - flops.begin());
    flops[owner[i]] += pieces[i].flops;
    elements[owner[i]] += pieces[i].range.count();
  }
  std::size_t rank = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].flops > 0) continue;
    const std::int64_t size = pieces[i].range.count();
    while (rank + 1 < count && (elements[rank] + size / 2) * ranks > layout.size()) ++rank;
    owner[i] = rank;
    elements[rank] += size;
  }
  std::vector<ParameterRanges> owned(count);
  for (std::size_t i = 0; i < pieces.size(); ++i) owned[owner[i]].add(pieces[i].range);
  return owned;
}

Optimizer::Optimizer(ParameterArena& arena, const OptimizerConfig& settings, const Backend& backend, UpdateCut cut,
                     std::optional<ParameterRanges> owned)
    : arena_(arena),
      config_(settings),
      backend_(backend),
      rules_(update_rules(settings, arena)),
      settings_(settings_of(rules_).to(arena.gradients().device())),
      shares_(shares_of(rules_, settings.learning_rate).to(settings_.device())),
      steps_(at::zeros({1}, settings_.options())),
      betas_(at::tensor({settings.beta1, settings.beta2}, at::kDouble).to(settings_.device())),
      norm_squared_(at::zeros_like(steps_)) {
  if (!owned) owned.emplace().add({0, arena.size()});
  for (const auto& rule : rules_) {
    for (UpdatePart& part : rule->begin(arena_, backend_, settings_, *owned, cut)) {
      parts_.push_back(std::move(part));
    }
  }
  if (cut != UpdateCut::by_blocks) return;
  std::stable_sort(parts_.begin(), parts_.end(), [](const auto& a, const auto& b) { return a.flops > b.flops; });
}

std::vector<OptimizerState> Optimizer::states() const {
  std::vector<OptimizerState> all;
  for (const auto& rule : rules_) append_states(all, *rule);
  return all;
}

std::int64_t Optimizer::steps() const { return static_cast<std::int64_t>(steps_.item<double>()); }

void Optimizer::set_steps(std::int64_t steps) { steps_.fill_(static_cast<double>(steps)); }

void Optimizer::set_learning_rate(double learning_rate) {
  settings_.select(1, rate_column).copy_(shares_.mul(learning_rate));
}

void Optimizer::begin_update(const at::Tensor& norm_squared) {
  norm_squared_.copy_(norm_squared);
  steps_.add_(norm_squared.isfinite());
  const at::Tensor corrections = at::pow(betas_, steps_).neg_().add_(1.0);  // 1 - beta^t, for every group
  settings_.narrow(1, corrections_column, 2).copy_(corrections.expand({settings_.size(0), 2}));
}

void Optimizer::update(at::Tensor norm_squared) {
  RECORD_FUNCTION(word_of(config_.name).data(), std::vector<c10::IValue>());
  if (!norm_squared.defined()) norm_squared = backend_.sum_of_squares(arena_.gradients());
  begin_update(norm_squared);
  for (const UpdatePart& part : parts_) part.update(norm_squared);
}

OptimizerStates::OptimizerStates(const Optimizer& optimizer)
    : name(optimizer.name()), steps(optimizer.steps()), all(optimizer.states()) {}

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
