#include "model/parameters.h"

#include <ATen/Parallel.h>
#include <ATen/ops/ones.h>

#include <cmath>
#include <functional>
#include <utility>

#include "base/error.h"
#include "base/random.h"
#include "base/strings.h"

namespace inkling {
namespace {

using Visit = std::function<void(Weight& view, GptParameter parameter)>;

// Visits every part of a model once: `weights` has room for the views, and each parameter comes with its own.
class PartVisitor {
 public:
  PartVisitor(const GptShape& shape, Visit visit) : shape_(shape), visit_(std::move(visit)) {}

  void model(GptWeights& weights) {
    table(weights.embedding.tokens, "wte", "embed_tokens", shape_.vocab_size);
    if (has_position_table(shape_.position)) {
      table(weights.embedding.positions, "wpe", "embed_positions", shape_.block_size);
    }
    if (shape_.embedding_norm) norm(weights.embedding_norm, "ln_e", "embedding_norm");
    weights.blocks.resize(static_cast<std::size_t>(shape_.n_layer));
    for (std::size_t layer = 0; layer < weights.blocks.size(); ++layer) {
      block(weights.blocks[layer], str("h.", layer, "."), str("layers.", layer, "."));
    }
    norm(weights.ln_f, "ln_f", "norm");
    if (!shape_.tie_embeddings) {
      whole(weights.head, {"lm_head.weight", {shape_.vocab_size, shape_.n_embd}, ParameterGroup::head},
            "lm_head.weight");
    }
  }

 private:
  void block(BlockWeights& weights, const std::string& gpt2, const std::string& llama) {
    const std::int64_t channels = shape_.n_embd, inner = shape_.inner(), widened = shape_.widened();
    const AttentionForm heads = shape_.attention();
    const std::int64_t queries = heads.queries(), keys = heads.keys(), packed = heads.packed();
    norm(weights.ln_1, gpt2 + "ln_1", llama + "input_layernorm");
    conv(weights.conv_1, gpt2 + "conv_1", llama + "input_conv");
    linear(weights.c_attn,
           {.name = gpt2 + "attn.c_attn", .shape = {channels, packed}, .columns = {queries, keys, keys}},
           {{llama + "self_attn.q_proj", 0, queries},
            {llama + "self_attn.k_proj", queries, keys},
            {llama + "self_attn.v_proj", queries + keys, keys}},
           is_in_queries(shape_.bias));
    if (shape_.qk_norm) {
      norm_of_heads(weights.q_norm, gpt2 + "attn.q_norm", llama + "self_attn.q_norm");
      norm_of_heads(weights.k_norm, gpt2 + "attn.k_norm", llama + "self_attn.k_norm");
    }
    linear(weights.c_proj,
           {.name = gpt2 + "attn.c_proj", .shape = {queries, channels}, .initial = InitialValue::residual},
           {{llama + "self_attn.o_proj", 0, channels}}, is_in_every_layer(shape_.bias));
    norm(weights.ln_2, gpt2 + "ln_2", llama + "post_attention_layernorm");
    conv(weights.conv_2, gpt2 + "conv_2", llama + "post_attention_conv");
    std::vector<FileColumns> widening = {{llama + "mlp.up_proj", widened - inner, inner}};
    if (widened > inner) widening.insert(widening.begin(), {llama + "mlp.gate_proj", 0, inner});
    linear(weights.mlp.c_fc,
           {.name = gpt2 + "mlp.c_fc", .shape = {channels, widened}, .initial = InitialValue::widening}, widening,
           is_in_every_layer(shape_.bias));
    linear(weights.mlp.c_proj,
           {.name = gpt2 + "mlp.c_proj", .shape = {inner, channels}, .initial = InitialValue::residual},
           {{llama + "mlp.down_proj", 0, channels}}, is_in_every_layer(shape_.bias));
    weights.mlp.activation = shape_.activation;
  }

  void table(Weight& weight, const std::string& gpt2, const std::string& llama, std::int64_t rows) {
    whole(weight, {gpt2 + ".weight", {rows, shape_.n_embd}, ParameterGroup::embedding}, llama + ".weight");
  }

  void norm(NormWeights& weights, const std::string& gpt2, const std::string& llama) {
    norm(weights, shape_.norm, {gpt2, {shape_.n_embd}, ParameterGroup::vector}, llama);
    if (shape_.norm_bias()) {
      whole(weights.bias, zero_vector(gpt2 + ".bias", {shape_.n_embd}), llama + ".bias");
    }
  }

  void norm_of_heads(NormWeights& weights, const std::string& gpt2, const std::string& llama) {
    norm(weights, NormKind::rmsnorm, {gpt2, {shape_.attention().head_size}, ParameterGroup::vector}, llama);
  }

  void norm(NormWeights& weights, NormKind kind, ParameterSpec spec, const std::string& llama) {
    weights.form = {kind, static_cast<float>(shape_.norm_epsilon)};
    spec.name += ".weight";
    spec.initial = InitialValue::ones;
    whole(weights.weight, std::move(spec), llama + ".weight", shape_.has_weights(kind));
  }

  void conv(Weight& weight, const std::string& gpt2, const std::string& llama) {
    if (shape_.conv == 0) return;
    ParameterSpec spec = zero_vector(gpt2 + ".weight", {shape_.conv, shape_.n_embd});
    spec.initial = InitialValue::conv;
    whole(weight, std::move(spec), llama + ".weight");
  }

  // `spec` and `columns` are those of the weight, named without their ending.
  void linear(LinearWeights& weights, ParameterSpec spec, std::vector<FileColumns> columns, bool has_bias) {
    const auto named = [&](const char* ending) {
      std::vector<FileColumns> all = columns;
      for (FileColumns& one : all) one.name += ending;
      return all;
    };
    const ParameterSpec bias = zero_vector(spec.name + ".bias", {spec.shape[1]});
    spec.name += ".weight";
    visit_(weights.weight, {.spec = std::move(spec), .llama = named(".weight"), .transposed = true});
    if (has_bias) visit_(weights.bias, {.spec = bias, .llama = named(".bias")});
  }

  static ParameterSpec zero_vector(std::string name, std::vector<std::int64_t> shape) {
    return {.name = std::move(name),
            .shape = std::move(shape),
            .group = ParameterGroup::vector,
            .initial = InitialValue::zeros};
  }

  // A parameter that Llama's files hold as it is.
  void whole(Weight& weight, ParameterSpec spec, const std::string& llama, bool in_arena = true) {
    const std::int64_t columns = spec.shape.back();
    visit_(weight, {.spec = std::move(spec), .in_arena = in_arena, .llama = {{llama, 0, columns}}});
  }

  const GptShape& shape_;
  const Visit visit_;
};

// The standard deviation of normal initial values.
double initial_deviation(const ParameterSpec& spec, const GptShape& shape, Initialization initialization) {
  const bool writes_to_stream = spec.initial == InitialValue::residual, is_conv = spec.initial == InitialValue::conv;
  const bool is_short = initialization == Initialization::short_run;
  switch (initialization) {
    case Initialization::gpt2:
      if (is_conv) return 0.0;
      return writes_to_stream ? 0.02 / std::sqrt(2.0 * static_cast<double>(shape.n_layer)) : 0.02;
    case Initialization::zero_output:
    case Initialization::short_run:
      if (is_conv) return is_short ? 0.5 : 0.0;
      if (writes_to_stream || spec.group == ParameterGroup::head) return 0.0;
      if (spec.group == ParameterGroup::embedding) return 1.0;
      return (is_short && spec.initial == InitialValue::widening ? 1.0 : 0.5) /
             std::sqrt(static_cast<double>(shape.n_embd));
  }
  throw Error::internal("an unknown initialization");
}

}  // namespace

GptShape shape_from(const ModelConfig& model, std::uint64_t vocab_size) {
  GptShape shape = model;
  shape.vocab_size = static_cast<std::int64_t>(vocab_size);
  return shape;
}

std::vector<GptParameter> list_parameters(const GptShape& shape) {
  std::vector<GptParameter> all;
  GptWeights none;
  PartVisitor(shape, [&](Weight&, GptParameter parameter) { all.push_back(std::move(parameter)); }).model(none);
  return all;
}

std::vector<ParameterSpec> gpt_parameters(const GptShape& shape) {
  std::vector<ParameterSpec> specs;
  for (GptParameter& parameter : list_parameters(shape)) {
    if (parameter.in_arena) specs.push_back(std::move(parameter.spec));
  }
  return specs;
}

GptWeights::GptWeights(const GptShape& shape, const ParameterArena& arena) {
  PartVisitor(shape, [&](Weight& view, const GptParameter& parameter) {
    view = parameter.in_arena ? arena.weight(parameter.spec.name)
                              : Weight{.value = at::ones(parameter.spec.shape, arena.vector_options())};
  }).model(*this);
  if (shape.tie_embeddings) head = embedding.tokens;
}

void initialize(ParameterArena& arena, const GptShape& shape, std::uint64_t seed, Initialization initialization) {
  const at::Tensor values = arena.values().cpu();
  for (std::size_t number = 0; number < arena.parameters().size(); ++number) {
    const Parameter& parameter = arena.parameters()[number];
    float* const out = values.data_ptr<float>() + parameter.offset;
    const InitialValue initial = parameter.spec.initial;
    if (initial == InitialValue::zeros || initial == InitialValue::ones) {
      std::fill(out, out + parameter.count, initial == InitialValue::ones ? 1.0f : 0.0f);
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
