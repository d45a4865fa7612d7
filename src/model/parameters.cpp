#include "model/parameters.h"

#include <ATen/Parallel.h>
#include <ATen/ops/ones.h>

#include <cmath>
#include <string>

#include "base/random.h"
#include "base/strings.h"

namespace inkling {
namespace {

LinearWeights linear_weights(const ParameterArena& arena, const std::string& name, const GptShape& shape) {
  return {arena.weight(name + ".weight"), shape.bias ? arena.weight(name + ".bias") : Weight{}};
}

// Makes the norms of a model.
class Norms {
 public:
  Norms(const GptShape& shape, const ParameterArena& arena) : shape_(shape), arena_(arena) {}

  NormWeights of_channels(const std::string& name) const {
    return {weight(name, shape_.norm, shape_.n_embd), shape_.norm_bias() ? arena_.weight(name + ".bias") : Weight{},
            form(shape_.norm)};
  }
  // Undefined for a model without them.
  NormWeights of_heads(const std::string& name) const {
    if (!shape_.qk_norm) return {};
    return {weight(name, NormKind::rmsnorm, shape_.attention().head_size), {}, form(NormKind::rmsnorm)};
  }

 private:
  NormForm form(NormKind kind) const { return {kind, static_cast<float>(shape_.norm_epsilon)}; }

  Weight weight(const std::string& name, NormKind kind, std::int64_t size) const {
    if (shape_.has_weights(kind)) return arena_.weight(name + ".weight");
    return {.value = at::ones({size}, arena_.vector_options())};
  }

  const GptShape& shape_;
  const ParameterArena& arena_;
};

// The standard deviation of a table's or a matrix's initial values.
double initial_deviation(const ParameterSpec& spec, const GptShape& shape, Initialization initialization) {
  const bool writes_to_stream = spec.name.ends_with("c_proj.weight");
  if (initialization == Initialization::gpt2) {
    return writes_to_stream ? 0.02 / std::sqrt(2.0 * static_cast<double>(shape.n_layer)) : 0.02;
  }
  if (writes_to_stream || spec.group == ParameterGroup::head) return 0.0;
  return spec.group == ParameterGroup::embedding ? 1.0 : 0.5 / std::sqrt(static_cast<double>(shape.n_embd));
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
  const auto linear_layer = [&](const std::string& name, std::int64_t in, std::int64_t out,
                                const std::vector<std::int64_t>& columns = {}) {
    specs.push_back({name + ".weight", {in, out}, ParameterGroup::matrix, columns});
    if (shape.bias) vector(name + ".bias", out);
  };
  const auto norm = [&](const std::string& name) {
    if (shape.has_weights(shape.norm)) vector(name + ".weight", channels);
    if (shape.norm_bias()) vector(name + ".bias", channels);
  };
  const auto conv = [&](const std::string& name) {
    if (shape.conv > 0) specs.push_back({name + ".weight", {shape.conv, channels}, ParameterGroup::vector});
  };
  table("wte", shape.vocab_size);
  if (shape.position == Position::learned) table("wpe", shape.block_size);
  if (shape.embedding_norm) norm("ln_e");
  for (std::int64_t layer = 0; layer < shape.n_layer; ++layer) {
    const std::string prefix = str("h.", layer, ".");
    norm(prefix + "ln_1");
    conv(prefix + "conv_1");
    linear_layer(prefix + "attn.c_attn", channels, heads.packed(), {heads.queries(), heads.keys(), heads.keys()});
    if (shape.qk_norm && shape.has_weights(NormKind::rmsnorm)) {
      vector(prefix + "attn.q_norm.weight", heads.head_size);
      vector(prefix + "attn.k_norm.weight", heads.head_size);
    }
    linear_layer(prefix + "attn.c_proj", heads.queries(), channels);
    norm(prefix + "ln_2");
    conv(prefix + "conv_2");
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
      ln_f(Norms(shape, arena).of_channels("ln_f")) {
  const Norms norms(shape, arena);
  if (shape.embedding_norm) embedding_norm = norms.of_channels("ln_e");
  const auto conv = [&](const std::string& name) { return shape.conv > 0 ? arena.weight(name + ".weight") : Weight{}; };
  for (std::int64_t layer = 0; layer < shape.n_layer; ++layer) {
    const std::string prefix = str("h.", layer, ".");
    blocks.push_back({.ln_1 = norms.of_channels(prefix + "ln_1"),
                      .conv_1 = conv(prefix + "conv_1"),
                      .c_attn = linear_weights(arena, prefix + "attn.c_attn", shape),
                      .q_norm = norms.of_heads(prefix + "attn.q_norm"),
                      .k_norm = norms.of_heads(prefix + "attn.k_norm"),
                      .c_proj = linear_weights(arena, prefix + "attn.c_proj", shape),
                      .ln_2 = norms.of_channels(prefix + "ln_2"),
                      .conv_2 = conv(prefix + "conv_2"),
                      .mlp = {.c_fc = linear_weights(arena, prefix + "mlp.c_fc", shape),
                              .c_proj = linear_weights(arena, prefix + "mlp.c_proj", shape),
                              .activation = shape.activation}});
  }
}

void initialize(ParameterArena& arena, const GptShape& shape, std::uint64_t seed, Initialization initialization) {
  const at::Tensor values = arena.values().cpu();
  for (std::size_t number = 0; number < arena.parameters().size(); ++number) {
    const Parameter& parameter = arena.parameters()[number];
    float* const out = values.data_ptr<float>() + parameter.offset;
    if (parameter.spec.group == ParameterGroup::vector) {
      const bool is_norm = !parameter.spec.name.ends_with(".bias") && parameter.spec.shape.size() == 1;
      std::fill(out, out + parameter.count, is_norm ? 1.0f : 0.0f);
      continue;
    }
    const double deviation = initial_deviation(parameter.spec, shape, initialization);
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
