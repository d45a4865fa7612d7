#include <ATen/Parallel.h>

#include <cmath>

#include "base/random.h"
#include "model/gpt.h"

namespace inkling {

void initialize(ParameterArena& arena, const GptShape& shape, std::uint64_t seed) {
  const double residual = 0.02 / std::sqrt(2.0 * static_cast<double>(shape.n_layer));
  const at::Tensor values = arena.values().cpu();
  for (std::size_t number = 0; number < arena.parameters().size(); ++number) {
    const Parameter& parameter = arena.parameters()[number];
    float* const out = values.data_ptr<float>() + parameter.offset;
    if (!parameter.spec.decay) {
      const float constant = parameter.spec.name.ends_with(".bias") ? 0.0f : 1.0f;
      std::fill(out, out + parameter.count, constant);
      continue;
    }
    const double deviation = parameter.spec.name.ends_with("c_proj.weight") ? residual : 0.02;
    const std::uint64_t key = random_key(seed, Purpose::initial_weights, number);
    at::parallel_for(0, parameter.count, 4096, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        out[i] = static_cast<float>(deviation * random_normal(key, static_cast<std::uint64_t>(i)));
      }
    });
  }
  arena.values().copy_(values);
  arena.refresh_compute();
}

}  // namespace inkling
