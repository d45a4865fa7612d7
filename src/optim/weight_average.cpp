#include "optim/weight_average.h"

#include <ATen/ops/zeros_like.h>

namespace inkling {

WeightAverage::WeightAverage(ParameterArena& arena, double beta)
    : arena_(arena), beta_(beta), values_(at::zeros_like(arena.values())) {}

void WeightAverage::begin() { values_.copy_(arena_.values()); }

void WeightAverage::update() { values_.lerp_(arena_.values(), 1.0 - beta_); }

void WeightAverage::exchange() {
  constexpr std::int64_t slice = std::int64_t{1} << 20;  // so that there is no third copy of all weights
  const at::Tensor weights = arena_.values();
  for (std::int64_t begin = 0; begin < values_.numel(); begin += slice) {
    const at::Tensor ours = values_.slice(0, begin, begin + slice), theirs = weights.slice(0, begin, begin + slice);
    const at::Tensor kept = ours.clone();
    ours.copy_(theirs);
    theirs.copy_(kept);
  }
  arena_.refresh_compute();
}

}  // namespace inkling
