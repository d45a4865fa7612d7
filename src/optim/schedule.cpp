#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace inkling {
namespace {

// Returns the step behind which the rate falls, which may lie between two steps.
double begin_of_fall(const ScheduleConfig& schedule, double decay_steps) {
  const auto warmup_steps = static_cast<double>(schedule.warmup_steps);
  if (schedule.name != ScheduleName::wsd) return warmup_steps;
  return std::max(warmup_steps, (1.0 - schedule.decay_fraction) * decay_steps);
}

}  // namespace

double learning_rate(std::int64_t step, const OptimizerConfig& optimizer, const ScheduleConfig& schedule,
                     std::int64_t max_steps) {
  const double peak = optimizer.learning_rate;
  if (step < schedule.warmup_steps) {
    return peak * static_cast<double>(step + 1) / static_cast<double>(schedule.warmup_steps + 1);
  }
  if (schedule.name == ScheduleName::constant) return peak;
  const std::int64_t decay_steps = schedule.decay_steps.value_or(max_steps);
  if (step >= decay_steps) return schedule.min_learning_rate;
  const auto now = static_cast<double>(step), end = static_cast<double>(decay_steps);
  const double begin = begin_of_fall(schedule, end);
  if (now < begin) return peak;
  const double progress = (now - begin) / (end - begin);
  const bool is_cosine = schedule.name == ScheduleName::cosine;
  const double share = is_cosine ? 0.5 * (1.0 + std::cos(std::numbers::pi * progress)) : 1.0 - progress;
  return schedule.min_learning_rate + share * (peak - schedule.min_learning_rate);
}

}  // namespace inkling
