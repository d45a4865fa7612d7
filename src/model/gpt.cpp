#include "model/gpt.h"

#include <string>
#include <utility>

#include "base/strings.h"
#include "ops/cross_entropy.h"
#include "ops/decode_block.h"
#include "ops/dropout.h"
#include "ops/recompute.h"

namespace inkling {
namespace {

LinearWeights linear_weights(const ParameterArena& arena, const std::string& name, bool bias) {
  return {arena.weight(name + ".weight"), bias ? arena.weight(name + ".bias") : Weight{}};
}

NormWeights norm_weights(const ParameterArena& arena, const std::string& name, bool bias) {
  return {arena.weight(name + ".weight"), bias ? arena.weight(name + ".bias") : Weight{}};
}

// How attention treats the positions before: none cached, fill an empty cache, or one new token behind a full one.
struct Past {
  const CachedLayer* layer = nullptr;
  const at::Tensor* lengths = nullptr;  // set: one new token per row
};

// Each token asks (query) all tokens up to itself (keys) and takes a weighted mean of what they say (values).
at::Tensor attend(const at::Tensor& x, const Attention& weights, std::int64_t n_head, const Past& past,
                  Context& context) {
  const at::Tensor qkv = linear(x, weights.c_attn, context);
  at::Tensor heads;
  if (past.lengths != nullptr) {
    heads = cached_attention(qkv, n_head, *past.layer, *past.lengths, context);
  } else {
    if (past.layer != nullptr) fill_cache(qkv, n_head, *past.layer);
    heads = causal_attention(qkv, n_head, context);
  }
  return dropout(linear(heads, weights.c_proj, context), context);
}

}  // namespace

std::vector<ParameterSpec> gpt_parameters(const GptShape& shape) {
  const std::int64_t channels = shape.n_embd;
  std::vector<ParameterSpec> specs;
  const auto matrix = [&](const std::string& name, std::int64_t in, std::int64_t out) {
    specs.push_back({name + ".weight", {in, out}, true});
  };
  const auto vector = [&](const std::string& name, std::int64_t size) { specs.push_back({name, {size}, false}); };
  const auto linear_layer = [&](const std::string& name, std::int64_t in, std::int64_t out) {
    matrix(name, in, out);
    if (shape.bias) vector(name + ".bias", out);
  };
  const auto norm = [&](const std::string& name) {
    vector(name + ".weight", channels);
    if (shape.bias) vector(name + ".bias", channels);
  };
  matrix("wte", shape.vocab_size, channels);
  matrix("wpe", shape.block_size, channels);
  for (std::int64_t layer = 0; layer < shape.n_layer; ++layer) {
    const std::string prefix = str("h.", layer, ".");
    norm(prefix + "ln_1");
    linear_layer(prefix + "attn.c_attn", channels, 3 * channels);
    linear_layer(prefix + "attn.c_proj", channels, channels);
    norm(prefix + "ln_2");
    linear_layer(prefix + "mlp.c_fc", channels, 4 * channels);
    linear_layer(prefix + "mlp.c_proj", 4 * channels, channels);
  }
  norm("ln_f");
  return specs;
}

Gpt::Gpt(const GptShape& shape, const ParameterArena& arena)
    : shape_(shape), embeddings_{arena.weight("wte.weight"), arena.weight("wpe.weight")} {
  for (std::int64_t layer = 0; layer < shape.n_layer; ++layer) {
    const std::string prefix = str("h.", layer, ".");
    blocks_.push_back({.ln_1 = norm_weights(arena, prefix + "ln_1", shape.bias),
                       .attention = {linear_weights(arena, prefix + "attn.c_attn", shape.bias),
                                     linear_weights(arena, prefix + "attn.c_proj", shape.bias)},
                       .ln_2 = norm_weights(arena, prefix + "ln_2", shape.bias),
                       .mlp = {linear_weights(arena, prefix + "mlp.c_fc", shape.bias),
                               linear_weights(arena, prefix + "mlp.c_proj", shape.bias)}});
  }
  ln_f_ = norm_weights(arena, "ln_f", shape.bias);
}

// x = x + attention(norm(x)); x = x + mlp(norm(x)); and again. Each addition is made together with the norm behind it.
at::Tensor Gpt::hidden(const at::Tensor& x, Context& context, KeyValueCache* cache, bool one_token) const {
  TwoTensors stream = {x, layer_norm(x, blocks_.front().ln_1, context)};
  for (std::size_t layer = 0; layer < blocks_.size(); ++layer) {
    const Past past = {cache == nullptr ? nullptr : &cache->layers[layer], one_token ? &cache->lengths : nullptr};
    const NormWeights& next_norm = layer + 1 < blocks_.size() ? blocks_[layer + 1].ln_1 : ln_f_;
    const auto through = [this, past, &next_norm, &block = blocks_[layer]](const TwoTensors& in, Context& pass) {
      if (past.lengths != nullptr && decodes_whole_blocks(in.first, pass)) {
        return decode_block(in, {block.attention.c_attn, block.attention.c_proj, block.ln_2, block.mlp, next_norm,
                                 shape_.gelu, shape_.n_head, *past.layer, *past.lengths});
      }
      const at::Tensor attended = attend(in.second, block.attention, shape_.n_head, past, pass);
      const auto [sum, normed] = add_layer_norm(in.first, attended, block.ln_2, pass);
      const at::Tensor fed = dropout(mlp(normed, block.mlp, shape_.gelu, pass), pass);
      return add_layer_norm(sum, fed, next_norm, pass);
    };
    stream = context.recompute == Recompute::block ? recomputed(stream, through, context) : through(stream, context);
  }
  return stream.second;
}

at::Tensor Gpt::loss(const at::Tensor& tokens, const at::Tensor& targets, Context& context) const {
  const at::Tensor x = dropout(embedding(tokens, embeddings_, context), context);
  return head_cross_entropy(hidden(x, context, nullptr, false), embeddings_.tokens, targets, context);
}

at::Tensor Gpt::logits(const at::Tensor& tokens, Context& context) const {
  const at::Tensor x = dropout(embedding(tokens, embeddings_, context), context);
  return head_logits(hidden(x, context, nullptr, false), embeddings_.tokens, context);
}

void Gpt::prefill(const at::Tensor& tokens, const at::Tensor& lengths, KeyValueCache& cache, Context& context) const {
  hidden(embedding(tokens, embeddings_, context), context, &cache, false);
  cache.lengths.copy_(lengths);
}

at::Tensor Gpt::decode(const at::Tensor& tokens, KeyValueCache& cache, Context& context) const {
  const at::Tensor x = hidden(embedding_at(tokens, cache.lengths, embeddings_, context), context, &cache, true);
  cache.lengths.add_(1);
  return head_logits(x.squeeze(1), embeddings_.tokens, context);
}

}  // namespace inkling
