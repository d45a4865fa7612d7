#include "model/weights.h"

#include <ATen/Parallel.h>

#include <cmath>
#include <string>

#include "base/random.h"
#include "base/strings.h"

namespace inkling {
namespace {

LinearWeights linear_weights(const ParameterArena& arena, const std::string& name, const GptShape& shape) {
  return {arena.weight(name + ".weight"), shape.bias ? arena.weight(name + ".bias") : Weight{}};
}

NormWeights norm_weights(const ParameterArena& arena, const std::string& name, const GptShape& shape) {
  return {arena.weight(name + ".weight"),
          shape.norm_bias() ? arena.weight(name + ".bias") : Weight{},
          {shape.norm, static_cast<float>(shape.norm_epsilon)}};
}

// Undefined for a model without them.
NormWeights head_norm(const ParameterArena& arena, const std::string& name, const GptShape& shape) {
  if (!shape.qk_norm) return {};
  return {arena.weight(name + ".weight"), {}, {NormKind::rmsnorm, static_cast<float>(shape.norm_epsilon)}};
}

}  // namespace

GptShape shape_from(const ModelConfig& model, std::uint64_t vocab_size) {
  GptShape shape = model;
  shape.vocab_size = static_cast<std::int64_t>(vocab_size);
  return shape;
}

std::vector<ParameterSpec> gpt_parameters(const GptShape& shape) {
  const std::int64_t channels = shape.n_embd;
  const AttentionForm heads = shape.attention();
  std::vector<ParameterSpec> specs;
  const auto table = [&](const std::string& name, std::int64_t rows) {
    specs.push_back({name + ".weight", {rows, channels}, ParameterGroup::embedding});
  };
  const auto vector = [&](const std::string& name, std::int64_t size) {
    specs.push_back({name, {size}, ParameterGroup::vector});
  };
  const auto linear_layer = [&](const std::string& name, std::int64_t in, std::int64_t out) {
    specs.push_back({name + ".weight", {in, out}, ParameterGroup::matrix});
    if (shape.bias) vector(name + ".bias", out);
  };
  const auto norm = [&](const std::string& name) {
    vector(name + ".weight", channels);
    if (shape.norm_bias()) vector(name + ".bias", channels);
  };
  table("wte", shape.vocab_size);
  if (shape.position == Position::learned) table("wpe", shape.block_size);
  for (std::int64_t layer = 0; layer < shape.n_layer; ++layer) {
    const std::string prefix = str("h.", layer, ".");
    norm(prefix + "ln_1");
    linear_layer(prefix + "attn.c_attn", channels, heads.packed());
    if (shape.qk_norm) {
      vector(prefix + "attn.q_norm.weight", heads.head_size);
      vector(prefix + "attn.k_norm.weight", heads.head_size);
    }
    linear_layer(prefix + "attn.c_proj", heads.queries(), channels);
    norm(prefix + "ln_2");
    linear_layer(prefix + "mlp.c_fc", channels, shape.widened());
    linear_layer(prefix + "mlp.c_proj", shape.inner(), channels);
  }
  norm("ln_f");
  if (!shape.tie_embeddings) {
    specs.push_back({"lm_head.weight", {shape.vocab_size, channels}, ParameterGroup::head});
  }
  return specs;
}

GptWeights::GptWeights(const GptShape& shape, const ParameterArena& arena)
    : embedding{arena.weight("wte.weight"),
                shape.position == Position::learned ? arena.weight("wpe.weight") : Weight{}},
      head(shape.tie_embeddings ? embedding.tokens : arena.weight("lm_head.weight")),
      ln_f(norm_weights(arena, "ln_f", shape)) {
  for (std::int64_t layer = 0; layer < shape.n_layer; ++layer) {
    const std::string prefix = str("h.", layer, ".");
    blocks.push_back({.ln_1 = norm_weights(arena, prefix + "ln_1", shape),
                      .c_attn = linear_weights(arena, prefix + "attn.c_attn", shape),
                      .q_norm = head_norm(arena, prefix + "attn.q_norm", shape),
                      .k_norm = head_norm(arena, prefix + "attn.k_norm", shape),
                      .c_proj = linear_weights(arena, prefix + "attn.c_proj", shape),
                      .ln_2 = norm_weights(arena, prefix + "ln_2", shape),
                      .mlp = {.c_fc = linear_weights(arena, prefix + "mlp.c_fc", shape),
                              .c_proj = linear_weights(arena, prefix + "mlp.c_proj", shape),
                              .activation = shape.activation}});
  }
}

void initialize(ParameterArena& arena, const GptShape& shape, std::uint64_t seed) {
  const double residual = 0.02 / std::sqrt(2.0 * static_cast<double>(shape.n_layer));
  const at::Tensor values = arena.values().cpu();
  for (std::size_t number = 0; number < arena.parameters().size(); ++number) {
    const Parameter& parameter = arena.parameters()[number];
    float* const out = values.data_ptr<float>() + parameter.offset;
    if (parameter.spec.group == ParameterGroup::vector) {
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
