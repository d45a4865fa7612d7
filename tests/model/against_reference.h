// A model of any shape on a setting of tests/oracle/tolerances.h against the reference model in float64: the loss, the
// logits, every gradient, and generating with a cache.
#pragma once

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "base/random.h"
#include "tests/model/small_model.h"
#include "tests/oracle/tensors.h"
#include "tests/oracle/tolerances.h"

namespace inkling::test {

inline std::string described(const GptShape& shape) {
  Config config;
  static_cast<GptShape&>(config.model) = shape;
  config.data.source = {"none"};
  const std::string all = print_config(config);
  const std::size_t begin = all.find("model:"), end = all.find("optimizer:");
  return all.substr(begin, end - begin);
}

// The reference model in float64 with the values that `arena` computes with.
inline SmallModel judge_of(const GptShape& shape, const ParameterArena& arena) {
  const at::NoGradGuard no_gradients;
  SmallModel judge =
      make_small_model(shape, {.runtime = {.dtype = at::kDouble, .kernels = Kernels::reference, .threads = 1}});
  for (const Parameter& parameter : arena.parameters()) {
    const std::string& name = parameter.spec.name;
    judge.arena->weight(name).value.copy_(arena.weight(name).value);
  }
  return judge;
}

class AgainstReference : public oracle::OnEverySetting {
 protected:
  // ReLU's slope jumps at 0: of the units, a share as large as the error of what goes into it has the other slope, and
  // a share p of wrong elements, of which half are 0, is a relative error of sqrt(2 p). In float32 not one unit is so
  // near to 0.
  double of_jumps(const GptShape& shape, std::int64_t tokens) const {
    const double share = tolerance(logits_roundings(shape, 1));
    const bool is_met = share * static_cast<double>(tokens * shape.inner() * shape.n_layer) > 1;
    return shape.activation == Activation::relu && is_met ? std::sqrt(2.0 * share) : 0.0;
  }

  // positions: int64 [3, time], or undefined.
  void expect_reference(const GptShape& shape, double dropout = 0.0, std::int64_t time = 17,
                        const at::Tensor& positions = {}) const {
    SCOPED_TRACE(described(shape));
    SCOPED_TRACE(positions.defined() ? "documents" : "one document a row");
    constexpr std::int64_t rows = 3;
    const SmallModel model = make_lively_model(shape, {.runtime = runtime()});
    const SmallModel judge = judge_of(shape, *model.arena);
    const Batch batch = make_batch(shape, rows, time);
    const at::Device device = options().device();
    const std::uint64_t key = random_key(3, Purpose::dropout, 5);

    model.arena->begin_gradients();
    TrainingPass pass = training(dropout, key);
    if (positions.defined()) pass.positions = positions.to(device);
    const at::Tensor loss = model.model->loss(batch.tokens.to(device), batch.targets.to(device), pass);
    loss.backward();
    model.arena->collect_gradients();
    const TrainingPass judged = {
        .dropout = dropout, .dropout_key = oracle::key_on(at::kCPU, key), .positions = positions};
    const at::Tensor expected = judge.model->loss(batch.tokens, batch.targets, judged);
    expected.backward();
    EXPECT_LT(oracle::error(loss, expected), tolerance(logits_roundings(shape, time)));
    const double allowed = tolerance(gradient_roundings(shape, time, rows * time)) + of_jumps(shape, rows * time);
    for (const Parameter& parameter : model.arena->parameters()) {
      // Of the whole tensor: a unit behind a ReLU that is hardly ever on has a gradient as small as its errors.
      const at::Tensor wanted = judge.arena->weight(parameter.spec.name).gradient.flatten();
      EXPECT_LT(oracle::error(parameter.part_of(model.arena->gradients()).flatten(), wanted), allowed)
          << parameter.spec.name;
    }
    if (dropout == 0.0 && !positions.defined()) expect_generation(shape, model, judge, batch.tokens);
  }

  // All at once, and one after the other behind a prompt.
  void expect_generation(const GptShape& shape, const SmallModel& model, const SmallModel& judge,
                         const at::Tensor& text) const {
    const at::NoGradGuard no_gradients;
    const double allowed = tolerance(logits_roundings(shape, text.size(1)));
    const at::Tensor expected = judge.model->logits(text), ours = text.to(options().device());
    EXPECT_LT(oracle::error(model.model->logits(ours), expected), allowed);
    KeyValueCache cache(shape, text.size(0), text.size(1),
                        options().dtype(backend().activation_dtype(setting().dtype)));
    const std::int64_t prompt = std::min<std::int64_t>(5, text.size(1));
    model.model->prefill(ours.slice(1, 0, prompt), at::full({text.size(0)}, prompt, ours.options()), cache);
    for (std::int64_t t = prompt; t < text.size(1); ++t) {
      EXPECT_LT(oracle::error(model.model->decode(ours.select(1, t), cache), expected.select(1, t)), allowed) << t;
    }
  }
};

}  // namespace inkling::test
