// The learning rate of a step.
#pragma once

#include <cstdint>

#include "config/config.h"

namespace inkling {

// Returns the rate of a step (from 0): linear warm-up to learning_rate over warmup_steps, half a cosine down to
// min_learning_rate at decay_steps (Loshchilov, Hutter 2017; nanoGPT's form), then constant. `constant` is warm-up
// only.
double learning_rate(std::int64_t step, const OptimizerConfig& optimizer, const ScheduleConfig& schedule,
                     std::int64_t max_steps);

}  // namespace inkling
