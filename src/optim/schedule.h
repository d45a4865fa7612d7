// The learning rate of a step.
#pragma once

#include <cstdint>

#include "config/config.h"

namespace inkling {

// Returns the rate of a step (from 0). It rises along a line to learning_rate over warmup_steps. Then `cosine` falls
// along half a cosine (Loshchilov, Hutter 2017; nanoGPT's form), `linear` along a line, and `wsd` stays at the peak and
// falls along a line over the last decay_fraction of decay_steps (Hu et al. 2024). All three end at min_learning_rate
// at decay_steps and stay there. `constant` is warm-up only.
double learning_rate(std::int64_t step, const OptimizerConfig& optimizer, const ScheduleConfig& schedule,
                     std::int64_t max_steps);

}  // namespace inkling
