// The operations that the model is made of, with their gradients, over a backend. x is [..., C] unless said otherwise.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "backend/backend.h"
#include "config/config.h"

namespace inkling {

// What training adds to a forward pass.
struct TrainingPass {
  double dropout = 0.0;         // probability of dropping
  at::Tensor dropout_key = {};  // int64 [2] on the device: DropoutPlace::key
  Recompute recompute = Recompute::none;
  // int64 [B, T] on the device: where each token stands in its document, beginning with 0, which sees no other one.
  // Undefined: each row is a document.
  at::Tensor positions = {};
};

// What a forward pass carries through the whole model, by reference. It counts the places where dropout falls, so that
// each has random numbers of its own.
struct Pass {
  const Backend& backend;
  TrainingPass training = {};
  Rotation rotation = {};            // of the positions 0, 1, … or of all tokens', or undefined
  std::uint64_t dropout_places = 0;  // so far

  DropoutPlace next_dropout() {
    if (training.dropout == 0.0) return {};
    return {.probability = training.dropout, .key = training.dropout_key, .place = ++dropout_places};
  }
};

// Turns tokens into vectors: a row of the token table plus the position table's row for the token's column, or for its
// place in its document. tokens: int64 [B, T], ids below V, T <= block_size -> [B, T, C]
at::Tensor embedding(const at::Tensor& tokens, const EmbeddingWeights& weights, const Pass& pass);

// LayerNorm or RMSNorm, as weights.form says. add_norm() makes the residual addition too: it returns {x + branch,
// norm(x + branch)}.
at::Tensor norm(const at::Tensor& x, const NormWeights& weights, const Pass& pass);
ResidualStream add_norm(const at::Tensor& x, const at::Tensor& branch, const NormWeights& weights, const Pass& pass);
// It keeps the sum for its backward pass. These functions return the elements per token that an operation keeps.
constexpr std::int64_t kept_by_norm(std::int64_t channels) { return channels; }

// A causal convolution of each channel for itself, with the input added: y_t = x_t + sum over k of weight[k] x_(t-k),
// in each document from its own beginning. x: [B, T, C]; weight: [K, C], or undefined: then x itself.
at::Tensor conv(const at::Tensor& x, const Weight& weight, const Pass& pass);
// It keeps x.
inline std::int64_t kept_by_conv(const GptShape& shape) { return shape.conv > 0 ? shape.n_embd : 0; }

// x W + b: [..., in] -> [..., out]
at::Tensor linear(const at::Tensor& x, const LinearWeights& weights, const Pass& pass);
// It keeps x.
constexpr std::int64_t kept_by_linear(std::int64_t in) { return in; }

// The queries, keys and values that attention() takes: c_attn, and then queries and keys normalized and turned by
// pass.rotation, where the model does so. x: [B, T, C] -> [B, T, form.packed()]
at::Tensor queries_keys_values(const at::Tensor& x, const BlockWeights& block, const AttentionForm& form,
                               const Pass& pass);

// The MLP, for each token alone: a linear layer to F channels, an activation, and a linear layer back to C.
at::Tensor mlp(const at::Tensor& x, const MlpWeights& weights, const Pass& pass);
// It keeps x, and what goes into the activation and what comes out. While it runs there are both sides of the
// activation, and beside them x, the result and the residual stream.
inline std::int64_t kept_by_mlp(const GptShape& shape, Recompute recompute) {
  return shape.n_embd + shape.widened() + (recompute == Recompute::gelu ? 0 : shape.inner());
}
inline std::int64_t held_by_mlp(const GptShape& shape) { return shape.widened() + shape.inner() + 3 * shape.n_embd; }

// Multi-head causal self-attention (Vaswani et al. 2017, section 3.2). qkv: [B, T, form.packed()], the queries, keys
// and values of all heads side by side -> [B, T, H D], the heads concatenated. A token sees those of its document up to
// itself: softmax(q k^T / sqrt(D) + mask) v. Dropout falls on the attention probabilities.
at::Tensor attention(const at::Tensor& qkv, const AttentionForm& form, Pass& pass);
// It keeps qkv and its result. While it runs there are the gradients of both, and beside them x, the result and the
// residual stream.
inline std::int64_t kept_by_attention(const GptShape& shape) {
  const AttentionForm form = shape.attention();
  return form.packed() * (shape.qk_norm ? 2 : 1) + form.queries();
}
inline std::int64_t held_by_attention(const GptShape& shape) {
  return shape.attention().packed() + shape.attention().queries() + 3 * shape.n_embd;
}

// Each element becomes 0 with probability training.dropout, else x / (1 - p). Outside training it returns x itself.
at::Tensor dropout(const at::Tensor& x, Pass& pass);

// Returns the mean over scored targets of -log softmax(x table^T)[target], in nats: a scalar float32. table: [V, C];
// targets: int64, one per row of x, below V or not_scored. At least one target must be scored.
// A softcap above 0 makes softcap * tanh(logits / softcap) of the logits.
at::Tensor head_loss(const at::Tensor& x, const Weight& table, const at::Tensor& targets, double softcap,
                     const Pass& pass);

using Tensors = std::vector<at::Tensor>;
using TensorFunction = std::function<Tensors(const Tensors& in, Pass& pass)>;

// Returns block(in, pass). With training.recompute: block it keeps only `in` for the backward pass, which calls `block`
// again (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost"). `block` must give the same for the same
// input and pass, and must not capture by reference what may be gone by then.
Tensors run_block(const Tensors& in, const TensorFunction& block, Pass& pass);

}  // namespace inkling
