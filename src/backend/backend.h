// What a device can do with tensors. There is one value of this struct for the CPU, one for GPUs, and one for the
// reference model, which brings its own operations. backend/choose.h chooses among them, and no code above asks on
// which device a tensor lies.
//
// In the shapes, B counts the texts of a batch, T the tokens of each, C channels, H heads of size D, F the channels
// inside the MLP, and V the tokens of the vocabulary; `rows` are the B T tokens of a batch. Autograd does not see these
// functions: model/operations makes operations with gradients of them. They write the gradient of a weight straight to
// the arena, as Weight::begin_write() says. On a GPU they only queue work on the current stream, so that it can be
// recorded.
//
// Where documents lie behind each other in a row, `positions` says where in its own each token stands, int64 [B, T]: a
// document begins with 0, and ends where the next begins or the row ends. Undefined: each row is one document.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

#include "backend/weights.h"
#include "kernels/kernel_settings.h"

namespace inkling {

inline constexpr std::int64_t not_scored = -1;  // a target that the loss leaves out

// The residual stream x and the norm of it that the next part of the model reads, both [B, T, C].
struct ResidualStream {
  at::Tensor x, normed;
};

// One of the places of a forward pass where dropout falls, with its random numbers: element i of the whole batch is
// dropped by number i of the stream mix64(key + place * golden_gamma), in whichever micro-batch its row is computed.
struct DropoutPlace {
  double probability = 0.0;  // of dropping; 0: nothing is dropped
  // int64 [2] on the device, because a recorded step reads it anew each time: the key of the step, and which row of the
  // batch is the first here.
  at::Tensor key = {};
  std::uint64_t place = 0;  // counted from 1, in the order of the forward pass
};

struct Normalized {
  at::Tensor sum, out;    // [..., C]: what was normalized, and its norm
  at::Tensor mean, rstd;  // float32, one per row
};

struct NormalizedHeads {
  at::Tensor out;         // [rows, form.packed()]: queries and keys normalized, values as they were
  at::Tensor mean, rstd;  // float32 [rows (H + n_kv_head)]: of all queries, then of all keys
};

struct Widened {
  at::Tensor out;        // [rows, C]
  at::Tensor pre, wide;  // [rows, F]: before (twice as wide if it is gated) and after the activation
};

struct Attended {
  at::Tensor out;                 // [B, T, H D]
  std::vector<at::Tensor> saved;  // what attention_backward() of the same backend reads; `out` may be in it
  std::int64_t longest_queries = 0, longest_keys = 0;  // what FlashAttention's backward pass takes
};

// The angles of positions, for rotary position embedding (Su et al. 2021). Undefined where a model has none.
struct Rotation {
  at::Tensor cosines = {}, sines = {};  // float32 [positions, D/2]

  bool defined() const { return cosines.defined(); }
};

struct Scored {
  at::Tensor loss;       // float32 []: mean over the scored targets, in nats
  at::Tensor gradients;  // [rows, V] or wider: those of the logits, in the memory of the logits
};

// Keys and values of one layer, for rows that have grown to different lengths.
struct CachedLayer {
  at::Tensor keys, values;  // [B, n_kv_head, capacity, D], filled as cached_place() says
  at::Tensor arrivals;      // int32 [B, H], zero between calls: where a kernel on a GPU counts its blocks
  // [B, K, C]: the last inputs of the block's convolutions, position p at p % K; undefined where it has none.
  std::array<at::Tensor, 2> conv_inputs = {};

  // Returns a view of the rows [first, first + count).
  CachedLayer narrow(std::int64_t first, std::int64_t count) const {
    const auto part = [&](const at::Tensor& all) { return all.defined() ? all.narrow(0, first, count) : all; };
    return {part(keys), part(values), part(arrivals), {part(conv_inputs[0]), part(conv_inputs[1])}};
  }
};

// What decode_block() takes beside the residual stream, which holds the norm that the block begins with.
struct DecodedBlock {
  const BlockWeights& weights;
  const NormWeights& next_norm;  // that of the next block, or the last of all
  AttentionForm form;
  const CachedLayer& cache;   // gets the new keys and values
  const at::Tensor& lengths;  // int64 [B]: the new positions
  const Rotation& rotation;   // of these lengths; may be undefined
};

// The numbers in AdamWRange::settings, in order. bias_correction1 = 1 - beta1^t, bias_correction2 = 1 - beta2^t.
struct AdamWNumbers {
  double learning_rate, beta1, beta2, epsilon, weight_decay;
  double max_norm;  // the norm to which the gradient is clipped; 0: no clipping
  double bias_correction1, bias_correction2;
};

// A range of the arena in an AdamW update, flat [n] and float32. `compute` gets a copy of the new values in its own
// dtype, or is undefined.
struct AdamWRange {
  at::Tensor value, gradient, moment1, moment2, compute;
  at::Tensor settings;  // float64 [8]: AdamWNumbers, on the device
};

// The numbers in MuonRange::settings, in order; max_norm as above.
struct MuonNumbers {
  double learning_rate, momentum, weight_decay, max_norm;
};

// Matrices of one shape that lie equally far apart in a range of the arena, and what Muon multiplies their updates by.
struct MuonMatrices {
  std::int64_t count = 1, rows = 0, columns = 0;  // [in, out]
  std::int64_t first = 0, apart = 0, row = 0;     // elements before the first, from one to the next, from row to row
  double scale = 1.0;

  std::int64_t elements() const { return count * rows * columns; }
  std::int64_t side() const { return rows < columns ? rows : columns; }
  // Returns the view of a flat tensor of the range that holds them: [count, rows, columns].
  at::Tensor part_of(const at::Tensor& flat) const {
    return flat.as_strided({count, rows, columns}, {apart, row, 1}, flat.storage_offset() + first);
  }
};

// Memory that Muon works in, so that a step takes none: in the dtype of its products, as much as the largest of
// MuonMatrices needs.
struct MuonMemory {
  at::Tensor update;            // [n] of the range
  at::Tensor x, next;           // [elements()]
  at::Tensor gram, polynomial;  // [count side() side()]
};

// A range of matrices in a Muon update, flat [n] and float32, and where each of them lies. `compute` as in AdamWRange.
struct MuonRange {
  at::Tensor value, gradient, momentum, compute;
  at::Tensor settings;  // float64, of which the first are MuonNumbers, on the device
  std::vector<MuonMatrices> matrices;
  std::int64_t newton_schulz_steps = 5;
  MuonMemory memory;
};

// The texts of a recorded decoder, on the device, where draw() extends them. Each is int64 [B] except `contexts`.
struct DrawState {
  at::Tensor contexts;  // [B, block]: the last tokens of row b's context; its token i stands at i % block
  at::Tensor lengths;
  at::Tensor random, places;  // the key of each text's random numbers, and the number that is next
  at::Tensor tokens, drawn;   // the last token of each; the token just drawn, or -1 if a logit is NaN or +infinity
};

struct Backend {
  // Functions only queue work, and the host may run ahead of it. It pays then to record work that is repeated.
  bool queues = false;
  // A row that is decoded has the same bits whatever the others hold. LibTorch's products do not promise that.
  bool rows_are_independent = true;
  // A forward pass that is repeated with the same DropoutPlaces drops the same elements.
  bool repeats_dropout = true;
  // muon() takes MuonRange::memory; otherwise that is left empty, and a step makes about as much on the way.
  bool muon_works_in_its_memory = true;
  // The most channels that its norms, and its heads, may have.
  std::int64_t most_channels = INT64_MAX, most_head_channels = INT64_MAX;
  // Whether mlp(), attention(), of activations in this dtype and with positions or without, and decode_block() compute
  // this. model/ composes what they decline of LibTorch's operations, which is slower.
  bool (*activates)(Activation activation) = has_kernels;
  bool (*attends)(at::ScalarType dtype, const AttentionForm& form, bool has_positions) = nullptr;
  bool (*decodes)(const AttentionForm& form, Activation activation) = has_kernels;
  // Returns the dtype of what flows between the operations, for weights of this dtype.
  at::ScalarType (*activation_dtype)(at::ScalarType weights) = nullptr;

  // tokens: int64 [B, T] -> [B, T, C]: a row of the token table, plus the row of the position table for its column if
  // there is one.
  at::Tensor (*embedding)(const at::Tensor& tokens, const EmbeddingWeights& weights) = nullptr;
  void (*embedding_backward)(const at::Tensor& dout, const at::Tensor& tokens,
                             const EmbeddingWeights& weights) = nullptr;

  // LayerNorm or RMSNorm, as weights.form says, of x + branch, or of x where branch is undefined. x: [..., C].
  Normalized (*norm)(const at::Tensor& x, const at::Tensor& branch, const NormWeights& weights) = nullptr;
  // dsum: the gradient that reaches the sum on the residual path, or undefined. Returns the gradient of x, which is
  // also that of branch.
  at::Tensor (*norm_backward)(const at::Tensor& dout, const at::Tensor& dsum, const Normalized& forward,
                              const NormWeights& weights) = nullptr;

  // A causal convolution of each channel for itself, with the input added: y_t = x_t + sum over k of weight[k] x_(t-k),
  // in each document from its own beginning. x: [B, T, C]; weight: [K, C].
  at::Tensor (*conv)(const at::Tensor& x, const Weight& weight, const at::Tensor& positions) = nullptr;
  // Returns the gradient of x. dout: contiguous.
  at::Tensor (*conv_backward)(const at::Tensor& dout, const at::Tensor& x, const Weight& weight,
                              const at::Tensor& positions) = nullptr;

  // x W + b. x: [rows, in] -> [rows, out]
  at::Tensor (*linear)(const at::Tensor& x, const LinearWeights& weights) = nullptr;
  // Returns the gradient of x.
  at::Tensor (*linear_backward)(const at::Tensor& dout, const at::Tensor& x, const LinearWeights& weights) = nullptr;

  // activation(x W + b) W' + b'. With `repeatable`, `wide` has the bits that mlp_backward() gets when it computes it
  // again.
  Widened (*mlp)(const at::Tensor& x, const MlpWeights& weights, bool repeatable) = nullptr;
  // wide: undefined where it was not kept; then it is computed again from `pre`. Returns the gradient of x.
  at::Tensor (*mlp_backward)(const at::Tensor& dout, const at::Tensor& x, const at::Tensor& pre, const at::Tensor& wide,
                             const MlpWeights& weights) = nullptr;

  // Norms of each query and each key, with block.q_norm and block.k_norm. qkv: [..., form.packed()]
  NormalizedHeads (*norm_heads)(const at::Tensor& qkv, const AttentionForm& form, const BlockWeights& block) = nullptr;
  // Returns the gradient of qkv. dout: contiguous.
  at::Tensor (*norm_heads_backward)(const at::Tensor& dout, const at::Tensor& qkv, const NormalizedHeads& forward,
                                    const AttentionForm& form, const BlockWeights& block) = nullptr;

  // Returns qkv with queries and keys turned by the angles of their positions, pairs (i, i + D/2), or back. Row n of
  // qkv [rows, form.packed()] has the angles n % positions.
  at::Tensor (*rotate)(const at::Tensor& qkv, const AttentionForm& form, const Rotation& rotation, bool back) = nullptr;

  // Causal attention of all heads (Vaswani et al. 2017, section 3.2): softmax(q k^T / sqrt(D) + mask) v, dropout on the
  // probabilities. qkv: [B, T, form.packed()], contiguous. What form.pattern or another document hides costs neither
  // time nor memory.
  Attended (*attention)(const at::Tensor& qkv, const AttentionForm& form, const DropoutPlace& dropout,
                        const at::Tensor& positions) = nullptr;
  // Returns the gradient of qkv.
  at::Tensor (*attention_backward)(const at::Tensor& dout, const Attended& forward, const AttentionForm& form,
                                   const DropoutPlace& dropout, const at::Tensor& positions) = nullptr;

  // Softmax and cross-entropy of x table^T. x: [rows, C]; targets: int64 [rows], below V or not_scored, at least one of
  // them scored. With a softcap above 0 the logits become softcap * tanh(logits / softcap) before.
  Scored (*head)(const at::Tensor& x, const at::Tensor& targets, const Weight& table, double softcap) = nullptr;
  // dloss: the gradient of the loss, []. gradients: those of Scored. Returns the gradient of x.
  at::Tensor (*head_backward)(const at::Tensor& dloss, const at::Tensor& x, const at::Tensor& gradients,
                              const Weight& table) = nullptr;
  // x table^T: [..., C] -> [..., V]
  at::Tensor (*logits)(const at::Tensor& x, const Weight& table) = nullptr;

  // Each element becomes 0 with probability p, else x / (1 - p). x: [B, ...]. It is its own backward pass.
  at::Tensor (*dropout)(const at::Tensor& x, const DropoutPlace& place) = nullptr;

  // From here on a row is a text, which gets one more token. A row's bits do not depend on the other rows.
  // tokens, positions: int64 [B] -> [B, 1, C]
  at::Tensor (*decode_embedding)(const at::Tensor& tokens, const at::Tensor& positions,
                                 const EmbeddingWeights& weights) = nullptr;
  // in: [B, 1, C] each -> the residual stream after the block.
  ResidualStream (*decode_block)(const ResidualStream& in, const DecodedBlock& block) = nullptr;
  // x: [B, C] -> [B, V] float32
  at::Tensor (*decode_logits)(const at::Tensor& x, const Weight& table) = nullptr;
  // Draws the token after each row of logits [B, V] as sample_token() of generate/sampler.h does, from the first
  // `vocab_size` columns. Null where work is not queued, because the host draws then.
  void (*draw)(const at::Tensor& logits, const DrawState& state, const SamplingSettings& settings,
               std::int64_t vocab_size) = nullptr;

  // Returns the sum of the squares of a flat float32 tensor: [1], float64 or float32.
  at::Tensor (*sum_of_squares)(const at::Tensor& flat) = nullptr;
  // AdamW (Loshchilov, Hutter 2019, equation 12) with the gradient clipped to max_norm. norm_squared: that of all
  // gradients, from sum_of_squares(); if it is not finite, nothing changes.
  void (*adamw)(const AdamWRange& range, const at::Tensor& norm_squared) = nullptr;

  // Muon (Jordan et al. 2024): momentum = beta momentum + gradient, clipped as above; gradient + beta momentum of each
  // matrix made nearly orthogonal; value = value (1 - rate decay) - rate scale times that. Nothing changes where
  // adamw() changes nothing.
  void (*muon)(const MuonRange& range, const at::Tensor& norm_squared) = nullptr;

  // Calls work() once, which queues on the current stream (not the default one), and records what it queues instead of
  // running it. The result queues that again, with the tensors' new contents. Recordings of one `family` (any number)
  // share memory for what lives within them, so they must not run at the same time. Null where work is never recorded.
  std::function<void()> (*record)(int family, const std::function<void()>& work) = nullptr;
};

// The type of one of these functions: FunctionOf<&Backend::norm> norm; declares one that can be Backend::norm.
template <auto function>
using FunctionOf = std::remove_pointer_t<std::remove_reference_t<decltype(std::declval<Backend>().*function)>>;

}  // namespace inkling
