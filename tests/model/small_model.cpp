#include "tests/model/small_model.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "base/random.h"
#include "tests/oracle/tensors.h"

namespace inkling::test {

SmallModel make_small_model(const GptShape& shape, const SmallModelSettings& settings) {
  SmallModel made = {.arena = make_arena(shape, settings.runtime, settings.use), .model = {}};
  initialize(*made.arena, shape, settings.seed);
  made.model = make_model(shape, *made.arena, settings.runtime);
  return made;
}

SmallModel make_lively_model(const GptShape& shape, const SmallModelSettings& settings) {
  SmallModel model = make_small_model(shape, settings);
  std::uint64_t number = settings.seed * 1000;
  for (const Parameter& parameter : model.arena->parameters()) {
    const at::Tensor noise = oracle::normal(++number, parameter.spec.shape, 0.2);
    const ParameterSpec& spec = parameter.spec;
    const bool scale = spec.group == ParameterGroup::vector && spec.name.ends_with(".weight") && spec.shape.size() == 1;
    model.arena->master(parameter.spec.name).copy_(scale ? noise.add(1.0) : noise);
  }
  model.arena->refresh_compute();
  return model;
}

Batch make_batch(const GptShape& shape, std::int64_t rows, std::int64_t time) {
  Batch batch{oracle::tokens(1, {rows, time}, shape.vocab_size), oracle::tokens(2, {rows, time}, shape.vocab_size)};
  batch.targets.select(0, rows - 1).slice(0, time / 2).fill_(not_scored);
  return batch;
}

at::Tensor make_positions(std::int64_t rows, std::int64_t time, std::uint64_t seed, std::uint64_t longest) {
  const at::Tensor positions = at::zeros({rows, time}, at::kLong);
  std::int64_t* const position = positions.data_ptr<std::int64_t>();
  std::uint64_t documents = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t begin = 0, end = 0; begin < time; begin = end) {
      const std::uint64_t length = 1 + random_below(mix64(seed), documents++, longest);
      end = std::min(time, begin + static_cast<std::int64_t>(length));
      for (std::int64_t i = begin; i < end; ++i) position[row * time + i] = i - begin;
    }
  }
  return positions;
}

oracle::Roundings logits_roundings(const GptShape& shape, std::int64_t time) {
  using oracle::function_roundings, oracle::in_softmax;
  const auto layers = static_cast<double>(shape.n_layer), channels = static_cast<double>(shape.n_embd);
  const AttentionForm form = shape.attention();
  const auto head_size = static_cast<double>(form.head_size), heads = static_cast<double>(form.queries());
  // Queries and keys have a standard deviation of 0.2 sqrt(C), so scores one of 0.04 C. A convolution adds to the
  // variance of what is projected 0.04 for each position that it sees.
  const auto positions = static_cast<double>(std::min(shape.conv, time));
  const double score = 2 * 0.04 * channels * (1 + 0.04 * positions);
  const double norm = 2 * channels + function_roundings;
  const double head_norm = shape.qk_norm ? in_softmax(head_size + function_roundings, score) : 0.0;
  const double attention =
      channels + head_norm + in_softmax(head_size, score) + static_cast<double>(time) + function_roundings + heads;
  // A square has twice its root's relative error, which counts like four times the roundings; a gate times its value
  // has those of both.
  const bool doubled = shape.activation == Activation::relu_squared || is_gated(shape.activation);
  const double activated = (channels + function_roundings) * (doubled ? 4 : 1);
  const double mlp = activated + function_roundings + static_cast<double>(shape.inner());
  // A block keeps both norms, three products and their biases, scores, probabilities, values, GELU and two sums.
  const double kept = 2 + 2 * 4 + in_softmax(1, score) + 2 + 1 + 2 + (shape.conv > 0 ? 2 : 0);
  const double embedded = shape.embedding_norm ? norm : 0.0;
  return {embedded + layers * (2 * (norm + positions + 1) + attention + mlp + 2) + norm + channels,
          layers * kept + (shape.embedding_norm ? 4 : 3)};
}

double logits_difference(const GptShape& shape, std::int64_t time) {
  return 2.0 * oracle::rounding_error(logits_roundings(shape, time), oracle::float32_roundoff);
}

oracle::Roundings gradient_roundings(const GptShape& shape, std::int64_t time, std::int64_t tokens) {
  // Forward, and backward through as much for the way's own gradient and as much for what it is multiplied with.
  const oracle::Roundings forward = logits_roundings(shape, time);
  return {3 * forward.sums + static_cast<double>(shape.vocab_size + tokens), 3 * forward.kept + 2};
}

}  // namespace inkling::test
