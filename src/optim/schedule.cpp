#include "optim/schedule.h"

#include <cmath>
#include <numbers>

namespace inkling {

double learning_rate(std::int64_t step, const OptimizerConfig& optimizer, const ScheduleConfig& schedule,
                     std::int64_t max_steps) {
  const double peak = optimizer.learning_rate;
  if (step < schedule.warmup_steps) {
    return peak * static_cast<double>(step + 1) / static_cast<double>(schedule.warmup_steps + 1);
  }
  if (schedule.name == ScheduleName::constant) return peak;
  const std::int64_t decay_steps = schedule.decay_steps.value_or(max_steps);
  if (step >= decay_steps) return schedule.min_learning_rate;
  const double progress =
      static_cast<double>(step - schedule.warmup_steps) / static_cast<double>(decay_steps - schedule.warmup_steps);
  const double share = 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
  return schedule.min_learning_rate + share * (peak - schedule.min_learning_rate);
}

}  // namespace inkling
