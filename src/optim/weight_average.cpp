#include "optim/weight_average.h"

#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

namespace inkling {

constexpr std::int64_t longest_slice = std::int64_t{1} << 20;  // elements; there is no third copy of all weights

WeightAverage::WeightAverage(ParameterArena& arena, double beta)
    : arena_(arena),
      beta_(beta),
      values_(at::zeros_like(arena.values())),
      slice_(at::zeros({std::min(longest_slice, arena.size())}, arena.values().options())) {}

void WeightAverage::begin() { values_.copy_(arena_.values()); }

void WeightAverage::update() { update({0, arena_.size()}); }

void WeightAverage::update(const ParameterRange& part) {
  values_.slice(0, part.begin, part.end).lerp_(arena_.values().slice(0, part.begin, part.end), 1.0 - beta_);
}

void WeightAverage::exchange() {
  const at::Tensor weights = arena_.values();
  for (std::int64_t begin = 0; begin < values_.numel(); begin += longest_slice) {
    const at::Tensor ours = values_.slice(0, begin, begin + longest_slice);
    const at::Tensor theirs = weights.slice(0, begin, begin + longest_slice), kept = slice_.slice(0, 0, ours.numel());
    kept.copy_(ours);
    ours.copy_(theirs);
    theirs.copy_(kept);
  }
  arena_.refresh_compute();
}

}  // namespace inkling
