#include "tests/oracle/gpt.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/matmul.h>

namespace inkling::oracle {
namespace {

// The weights below one name: layer("mlp.c_fc") is linear with "h.3.mlp.c_fc.weight" and its bias, if there is one.
struct Layer {
  const Weights& weights;
  std::string prefix;

  at::Tensor find(const std::string& name) const {
    const auto found = weights.find(prefix + name);
    return found == weights.end() ? at::Tensor() : found->second;
  }
  at::Tensor linear(const std::string& name, const at::Tensor& x) const {
    return oracle::linear(x, find(name + ".weight"), find(name + ".bias"));
  }
  at::Tensor norm(const std::string& name, const at::Tensor& x) const {
    return oracle::layer_norm(x, find(name + ".weight"), find(name + ".bias"));
  }
};

}  // namespace

at::Tensor Gpt::logits(const Weights& weights, const at::Tensor& tokens) const {
  Dropout drop = dropout;
  const at::Tensor token_table = weights.at("wte.weight");
  at::Tensor x = drop(embedding(tokens, token_table, weights.at("wpe.weight")));
  for (std::int64_t number = 0; number < n_layer; ++number) {
    const Layer layer{weights, "h." + std::to_string(number) + "."};
    const at::Tensor qkv = layer.linear("attn.c_attn", layer.norm("ln_1", x));
    x = x + drop(layer.linear("attn.c_proj", causal_attention(qkv, form, drop)));
    const at::Tensor wide = gelu(layer.linear("mlp.c_fc", layer.norm("ln_2", x)), exact_gelu);
    x = x + drop(layer.linear("mlp.c_proj", wide));
  }
  return at::matmul(Layer{weights, ""}.norm("ln_f", x), token_table.t());
}

at::Tensor Gpt::loss(const Weights& weights, const at::Tensor& tokens, const at::Tensor& targets) const {
  return cross_entropy(logits(weights, tokens), targets);
}

}  // namespace inkling::oracle
