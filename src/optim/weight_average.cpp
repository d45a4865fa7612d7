#include "optim/weight_average.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

namespace inkling {

constexpr std::int64_t longest_slice = std::int64_t{1} << 20;  // elements; there is no third copy of all weights

WeightAverage::WeightAverage(ParameterArena& arena, double beta, std::optional<ParameterRanges> owned)
    : arena_(arena), beta_(beta) {
  if (!owned) owned.emplace().add({0, arena.size()});
  owned_ = *std::move(owned);
  values_ = at::zeros({owned_.count()}, arena.compute_values().options().dtype(at::kFloat));
  slice_ = at::zeros({std::min(longest_slice, owned_.count())}, values_.options());
}

void WeightAverage::begin() {
  for (const ParameterRange& range : owned_.ranges) {
    owned_.part_of(values_, range).copy_(arena_.master(range));
  }
}

void WeightAverage::update() {
  for (const ParameterRange& range : owned_.ranges) update(range);
}

void WeightAverage::update(const ParameterRange& part) {
  owned_.part_of(values_, part).lerp_(arena_.master(part), 1.0 - beta_);
}

void WeightAverage::exchange() {
  for (const ParameterRange& range : owned_.ranges) {
    for (std::int64_t begin = range.begin; begin < range.end; begin += longest_slice) {
      const ParameterRange part = {begin, std::min(range.end, begin + longest_slice)};
      const at::Tensor ours = owned_.part_of(values_, part), theirs = arena_.master(part);
      const at::Tensor kept = slice_.slice(0, 0, part.count());
      kept.copy_(ours);
      ours.copy_(theirs);
      theirs.copy_(kept);
    }
  }
  arena_.refresh_compute();
}

}  // namespace inkling
