// GPT-2 (Radford et al. 2019) as nanoGPT writes it: embeddings, blocks of attention and MLP, a tied output head.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "model/arena.h"
#include "ops/attention.h"
#include "ops/context.h"
#include "ops/embedding.h"
#include "ops/layer_norm.h"
#include "ops/linear.h"

namespace inkling {

struct GptShape {
  std::int64_t n_layer = 12, n_head = 12, n_embd = 768, block_size = 1024, vocab_size = 50257;
  bool bias = true;
  GeluForm gelu = GeluForm::tanh;

  bool operator==(const GptShape&) const = default;
};

// Every parameter under its Hugging Face name. GPT-2 small: 124,439,808 elements.
std::vector<ParameterSpec> gpt_parameters(const GptShape& shape);

// GPT-2's initialisation, from (seed, parameter, element) alone: N(0, 0.02) for matrices, N(0, 0.02 / sqrt(2 n_layer))
// for the two projections that write to the residual stream, ones for LayerNorm weights, zeros for biases.
void initialize(ParameterArena& arena, const GptShape& shape, std::uint64_t seed);

struct Attention {
  LinearWeights c_attn;  // [C, 3C]
  LinearWeights c_proj;  // [C, C]
};

struct Block {
  NormWeights ln_1;
  Attention attention;
  NormWeights ln_2;
  MlpWeights mlp;
};

class Gpt {
 public:
  Gpt(const GptShape& shape, const ParameterArena& arena);  // views: the arena must outlive it

  const GptShape& shape() const { return shape_; }

  // Mean cross-entropy in nats per scored token. tokens, targets: int64 [B, T], T <= block_size; a target of
  // not_scored does not count.
  at::Tensor loss(const at::Tensor& tokens, const at::Tensor& targets, Context& context) const;

  // [B, T] -> [B, T, V]. Rows padded at their end give what each gives alone: nothing looks ahead.
  at::Tensor logits(const at::Tensor& tokens, Context& context) const;

  // Runs the beginnings of texts into an empty cache. tokens: int64 [B, T], rows padded at their end; lengths: int64
  // [B].
  void prefill(const at::Tensor& tokens, const at::Tensor& lengths, KeyValueCache& cache, Context& context) const;

  // One more token per row, with context.decoding. tokens: int64 [B]; every cached length below block_size -> the
  // logits behind it, [B, V].
  at::Tensor decode(const at::Tensor& tokens, KeyValueCache& cache, Context& context) const;

 private:
  at::Tensor hidden(const at::Tensor& x, Context& context, KeyValueCache* cache, bool one_token) const;

  GptShape shape_;
  EmbeddingWeights embeddings_;
  std::vector<Block> blocks_;
  NormWeights ln_f_;
};

}  // namespace inkling
