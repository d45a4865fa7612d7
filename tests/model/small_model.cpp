#include "tests/model/small_model.h"

#include <utility>

#include "tests/oracle/tensors.h"

namespace inkling::test {

Model make_model(const GptShape& shape, const ModelSettings& settings) {
  auto arena = std::make_unique<ParameterArena>(gpt_parameters(shape), settings.options.device(),
                                                settings.options.dtype().toScalarType(), settings.gradients);
  initialize(*arena, shape, settings.seed);
  Gpt gpt(shape, *arena);
  return {std::move(arena), std::move(gpt)};
}

Model make_lively_model(const GptShape& shape, const ModelSettings& settings) {
  Model model = make_model(shape, settings);
  std::uint64_t number = settings.seed * 1000;
  for (const Parameter& parameter : model.arena->parameters()) {
    const at::Tensor noise = oracle::normal(++number, parameter.spec.shape, 0.2);
    const bool scale = !parameter.spec.decay && parameter.spec.name.ends_with(".weight");
    model.arena->master(parameter.spec.name).copy_(scale ? noise.add(1.0) : noise);
  }
  model.arena->refresh_compute();
  return model;
}

oracle::Weights oracle_weights(const ParameterArena& arena) {
  oracle::Weights weights;
  for (const Parameter& parameter : arena.parameters()) {
    const std::string& name = parameter.spec.name;
    const at::Tensor copy = arena.weight(name).value.detach().to(at::kCPU, at::kDouble).clone();
    weights[name] = copy.set_requires_grad(true);
  }
  return weights;
}

oracle::Gpt oracle_gpt(const GptShape& shape) {
  return {.n_layer = shape.n_layer, .n_head = shape.n_head, .exact_gelu = shape.gelu == GeluForm::exact};
}

}  // namespace inkling::test
