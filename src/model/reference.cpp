// The model with every setting of model:, in LibTorch's own operations and under its autograd, as nanoGPT writes it:
// the file to read first. It runs on any device and in any dtype. The tests compare model/gpt with it, and runs use it
// where the fused kernels have not passed their tests yet.
#include <ATen/TensorOperators.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>

#include "backend/choose.h"
#include "backend/heads.h"
#include "base/error.h"
#include "model/attention_steps.h"
#include "model/composed_parts.h"
#include "model/model.h"
#include "model/operations.h"

namespace inkling {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

at::Tensor project(const at::Tensor& x, const LinearWeights& weights) {
  const at::Tensor product = at::matmul(x, weights.weight.value);
  return weights.bias.defined() ? product + weights.bias.value : product;
}

at::Tensor normalize(const at::Tensor& x, const NormWeights& weights) {
  const auto& [weight, bias, form] = weights;
  switch (form.kind) {
    case NormKind::layernorm:
      return at::layer_norm(x, {x.size(-1)}, weight.value, bias.value, form.epsilon);
    case NormKind::rmsnorm:
      return at::rms_norm(x, {x.size(-1)}, weight.value, form.epsilon);
  }
  throw Error::internal("an unknown norm");
}

// y_t = x_t + sum over k of weight[k] x_(t-k), with zeros before the document. x: [B, T, C]; weight: [K, C];
// positions: [B, T] in the documents, or undefined
at::Tensor convolve(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& positions = {}) {
  at::Tensor y = x;
  for (std::int64_t k = 0; k < std::min(weight.size(0), x.size(1)); ++k) {
    at::Tensor earlier = at::constant_pad_nd(x.narrow(1, 0, x.size(1) - k), {0, 0, k, 0}, 0);
    if (positions.defined()) earlier = earlier.masked_fill(positions.lt(k).unsqueeze(2), 0);
    y = y + weight.select(0, k) * earlier;
  }
  return y;
}

// Each element becomes 0 with probability training.dropout, else x / (1 - p), by the numbers of DropoutPlace. A backend
// may have a kernel that draws them; LibTorch's operations take many passes.
at::Tensor drop(const at::Tensor& x, Pass& pass) {
  if (pass.training.dropout == 0.0) return x;
  if (pass.backend.dropout != nullptr) return dropout(x, pass);
  return composed_dropout(x, pass.next_dropout());
}

// Scaled as Llama 3.1's: waves longer than original / low positions grow by the factor, those shorter than original /
// high stay, and those between are mixed of both. frequencies: [D/2]
at::Tensor scaled(const at::Tensor& frequencies, const RopeScaling& scaling) {
  at::Tensor slower = frequencies / scaling.factor;
  switch (scaling.kind) {
    case ScalingKind::none:
      return frequencies;
    case ScalingKind::linear:
      return slower;
    case ScalingKind::llama3: {
      const at::Tensor waves = 2 * std::numbers::pi / frequencies;
      const auto original = static_cast<double>(scaling.original);
      const at::Tensor share = (original / waves - scaling.low) / (scaling.high - scaling.low);
      const at::Tensor between = (1 - share) * slower + share * frequencies;
      return at::where(waves > original / scaling.low, slower,
                       at::where(waves < original / scaling.high, frequencies, between));
    }
  }
  throw Error::internal("an unknown scaling");
}

// Rotary positions (Su et al. 2021): the pairs (i, i + D/2) of heads [B,H,T,D] turn by position / theta^(2i/D), or less
// where that is scaled, with angles in float32, or in float64 where they grow without end. positions: [T], [B,1,T] or
// [B,1,1].
at::Tensor rotate(const at::Tensor& heads, const at::Tensor& positions, const GptShape& shape) {
  const std::int64_t half = heads.size(3) / 2;
  const at::ScalarType dtype = shape.is_endless() ? at::kDouble : at::kFloat;
  const at::Tensor exponents = at::arange(0, 2 * half, 2, heads.options().dtype(dtype)) / (2 * half);
  const at::Tensor frequencies = scaled(at::pow(shape.rope_theta, exponents).reciprocal(), shape.rope_scaling);
  const at::Tensor angles = positions.to(dtype).unsqueeze(-1) * frequencies;
  const at::Tensor first = heads.narrow(3, 0, half), second = heads.narrow(3, half, half);
  const at::Tensor cosines = angles.cos().to(at::kFloat), sines = angles.sin().to(at::kFloat);
  return at::cat({first * cosines - second * sines, second * cosines + first * sines}, 3).to(heads.scalar_type());
}

// Each token asks (query) all of its document up to itself (keys) and takes a weighted mean of what they say (values).
at::Tensor causal_attention(const Heads& heads, const AttentionForm& form, Pass& pass) {
  const at::Tensor &q = heads.queries, k = for_each_query(heads.keys, q), v = for_each_query(heads.values, q);
  const at::Tensor& positions = pass.training.positions;
  const bool is_plain = form.pattern.is_full() && form.scores == ScoreKind::plain && !positions.defined();
  if (pass.training.dropout == 0.0 && is_plain) {
    return concatenate_heads(at::scaled_dot_product_attention(q, k, v, {}, 0.0, true));
  }
  const at::Tensor probabilities = at::softmax(visible_scores(q, k, form, positions), -1).to(q.scalar_type());
  return concatenate_heads(at::matmul(drop(probabilities, pass), v));
}

// The same step by step, one head after the other, so that a long text needs the memory of one head's scores.
at::Tensor watched_attention(const Heads& heads, const AttentionForm& form,
                             const std::function<void(std::int64_t head, const AttentionSteps& steps)>& watch) {
  Tensors sums;
  for (std::int64_t head = 0; head < form.n_head; ++head) {
    AttentionSteps steps = {.queries = heads.queries.narrow(1, head, 1),
                            .keys = heads.keys.narrow(1, head / form.group(), 1),
                            .values = heads.values.narrow(1, head / form.group(), 1)};
    steps.scores = visible_scores(steps.queries, steps.keys, form, {}, head);
    steps.weights = at::softmax(steps.scores, -1).to(steps.values.scalar_type());
    steps.sums = at::matmul(steps.weights, steps.values);
    sums.push_back(steps.sums);
    watch(head, steps);
  }
  return concatenate_heads(at::cat(sums, 1));
}

// Returns x table^T [rows, V], in bfloat16 with further columns of -infinity, which softmax turns into 0: products are
// slow on a GPU where rows do not begin at multiples of 16 bytes, as those of GPT-2's 50,257 logits would not.
at::Tensor padded_logits(const at::Tensor& x, const at::Tensor& table) {
  const std::int64_t missing = (64 - table.size(0) % 64) % 64;
  if (table.scalar_type() != at::kBFloat16 || table.size(0) % 8 == 0) return at::matmul(x, table.t());
  const at::Tensor nothing = at::constant_pad_nd(at::zeros({table.size(0)}, x.options()), {0, missing}, -infinity);
  return at::addmm(nothing, x, at::constant_pad_nd(table, {0, 0, 0, missing}).t());
}

// How a block sees other positions than each token's own.
struct Mixing {
  // The heads of a layer -> [B, T, H D]
  std::function<at::Tensor(const Heads& heads, std::size_t layer, Pass& pass)> attend;
  // x: [B, T, C], in front of the layer's attention (0) or MLP (1), where the model has convolutions
  std::function<at::Tensor(const at::Tensor& x, std::size_t layer, std::size_t number, Pass& pass)> convolve;
};

class Reference final : public Model {
 public:
  Reference(const GptShape& shape, const ParameterArena& arena, const Backend& backend)
      : Model(shape, backend),
        weights_(shape, arena),
        table_(weights_.embedding.tokens.value),
        head_(weights_.head.value),
        learned_(weights_.embedding.positions.value) {}

  at::Tensor loss(const at::Tensor& tokens, const at::Tensor& targets, const TrainingPass& training) const override {
    Pass pass{backend(), training};
    const at::Tensor x =
        training.positions.defined()
            ? hidden(drop(embed(tokens, training.positions), pass), training.positions.unsqueeze(1), causal(), pass)
            : hidden(drop(embed(tokens), pass), columns(tokens), causal(), pass);
    const at::Tensor rows = x.flatten(0, 1);
    const at::Tensor logits = shape().logit_softcap > 0 ? at::matmul(rows, head_.t()) : padded_logits(rows, head_);
    // The softmax is taken in float32 where the products are in bfloat16.
    const at::ScalarType dtype = c10::promoteTypes(logits.scalar_type(), at::kFloat);
    return at::cross_entropy_loss(capped(logits.to(dtype)), targets.flatten(), {}, 1 /* mean */, not_scored);
  }

  at::Tensor logits(const at::Tensor& tokens) const override {
    Pass pass{backend()};
    return capped(at::matmul(hidden(embed(tokens), columns(tokens), causal(), pass), head_.t()));
  }

  at::Tensor watched_logits(const at::Tensor& tokens, const AttentionWatcher& watch) const {
    Pass pass{backend()};
    Mixing watched = causal();
    watched.attend = [&](const Heads& heads, std::size_t layer, Pass&) {
      return watched_attention(heads, form_of(layer), [&](std::int64_t head, const AttentionSteps& steps) {
        watch(static_cast<std::int64_t>(layer), head, steps);
      });
    };
    return capped(at::matmul(hidden(embed(tokens), columns(tokens), watched, pass), head_.t()));
  }

  void prefill(const at::Tensor& tokens, const at::Tensor& lengths, KeyValueCache& cache) const override {
    Pass pass{backend()};
    Mixing filling;
    filling.attend = [&](const Heads& heads, std::size_t layer, Pass& own) {
      const AttentionForm form = form_of(layer);
      fill(cache.layers[layer], form.pattern, heads, lengths);
      return causal_attention(heads, form, own);
    };
    filling.convolve = [&](const at::Tensor& x, std::size_t layer, std::size_t number, Pass&) {
      fill(cache.layers[layer].conv_inputs[number], x, lengths);
      return convolve(x, conv_of(layer, number));
    };
    hidden(embed(tokens), columns(tokens), filling, pass);
    cache.lengths.copy_(lengths);
  }

  at::Tensor decode(const at::Tensor& tokens, KeyValueCache& cache) const override {
    Pass pass{backend()};
    Mixing cached;
    cached.attend = [&](const Heads& heads, std::size_t layer, Pass&) {
      return cached_attention(heads, form_of(layer), cache.layers[layer], cache.lengths);
    };
    cached.convolve = [&](const at::Tensor& x, std::size_t layer, std::size_t number, Pass&) {
      return cached_convolve(x, conv_of(layer, number), cache.layers[layer].conv_inputs[number], cache.lengths);
    };
    at::Tensor x = at::embedding(table_, tokens);
    if (learned_.defined()) x = x + at::embedding(learned_, cache.lengths);
    x = embedded(x).unsqueeze(1);
    const at::Tensor last = hidden(x, cache.lengths.view({-1, 1, 1}), cached, pass).squeeze(1);
    cache.lengths.add_(1);
    return capped(at::matmul(last, head_.t()));
  }

 private:
  static at::Tensor columns(const at::Tensor& tokens) { return at::arange(tokens.size(1), tokens.options()); }

  AttentionForm form_of(std::size_t layer) const { return shape().attention(layer); }

  at::Tensor conv_of(std::size_t layer, std::size_t number) const {
    const BlockWeights& block = weights_.blocks[layer];
    return (number == 0 ? block.conv_1 : block.conv_2).value;
  }

  Mixing causal() const {
    return {.attend = [this](const Heads& heads, std::size_t layer,
                             Pass& pass) { return causal_attention(heads, form_of(layer), pass); },
            .convolve = [this](const at::Tensor& x, std::size_t layer, std::size_t number,
                               Pass& pass) { return convolve(x, conv_of(layer, number), pass.training.positions); }};
  }

  at::Tensor embed(const at::Tensor& tokens, const at::Tensor& positions = {}) const {
    const at::Tensor x = at::embedding(table_, tokens);
    if (!learned_.defined()) return embedded(x);
    return embedded(x +
                    (positions.defined() ? at::embedding(learned_, positions) : learned_.narrow(0, 0, tokens.size(1))));
  }

  at::Tensor embedded(const at::Tensor& x) const {
    return shape().embedding_norm ? normalize(x, weights_.embedding_norm) : x;
  }

  Heads heads_of(const at::Tensor& qkv, const BlockWeights& block, const at::Tensor& positions) const {
    Heads heads = split_heads(qkv, shape().attention());
    if (shape().qk_norm) {
      heads.queries = normalize(heads.queries, block.q_norm);
      heads.keys = normalize(heads.keys, block.k_norm);
    }
    if (has_rotation(shape().position)) {
      heads.queries = rotate(heads.queries, positions, shape());
      heads.keys = rotate(heads.keys, positions, shape());
    }
    return heads;
  }

  at::Tensor block(const at::Tensor& in, std::size_t layer, const at::Tensor& positions, const Mixing& mixing,
                   Pass& pass) const {
    const BlockWeights& block = weights_.blocks[layer];
    const auto convolved = [&](const at::Tensor& x, std::size_t number) {
      return shape().conv > 0 ? mixing.convolve(x, layer, number, pass) : x;
    };
    const at::Tensor qkv = project(convolved(normalize(in, block.ln_1), 0), block.c_attn);
    const at::Tensor attended = mixing.attend(heads_of(qkv, block, positions), layer, pass);
    const at::Tensor x = in + drop(project(attended, block.c_proj), pass);
    const at::Tensor wide = project(convolved(normalize(x, block.ln_2), 1), block.mlp.c_fc);
    return x + drop(project(activate(wide, block.mlp.activation), block.mlp.c_proj), pass);
  }

  at::Tensor hidden(at::Tensor x, const at::Tensor& positions, const Mixing& mixing, Pass& pass) const {
    for (std::size_t layer = 0; layer < weights_.blocks.size(); ++layer) {
      const auto through = [this, layer, positions, mixing](const Tensors& in, Pass& own) -> Tensors {
        return {block(in[0], layer, positions, mixing, own)};
      };
      x = run_block({x}, through, pass)[0];
    }
    return normalize(x, weights_.ln_f);
  }

  GptWeights weights_;
  at::Tensor table_;    // [V, C], of the embedding
  at::Tensor head_;     // [V, C], which may be the same
  at::Tensor learned_;  // [block_size, C], of positions, or undefined
};

}  // namespace

std::unique_ptr<Model> make_reference(const GptShape& shape, const ParameterArena& arena, const Backend& backend) {
  return std::make_unique<Reference>(shape, arena, backend);
}

at::Tensor watched_logits(const GptShape& shape, const ParameterArena& arena, const at::Tensor& tokens,
                          const AttentionWatcher& watch) {
  return Reference(shape, arena, composed_backend()).watched_logits(tokens, watch);
}

}  // namespace inkling
