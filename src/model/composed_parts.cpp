#include "model/composed_parts.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/where.h>

#include <bit>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "model/model.h"

namespace inkling {

at::Tensor activate(const at::Tensor& x, Activation activation) {
  const auto gated = [&](auto of_gate) {
    const Tensors halves = x.chunk(2, -1);  // gates, and values
    return of_gate(halves[0]) * halves[1];
  };
  switch (activation) {
    case Activation::gelu_tanh:
      return at::gelu(x, "tanh");
    case Activation::gelu:
      return at::gelu(x);
    case Activation::relu:
      return at::relu(x);
    case Activation::relu_squared:
      return at::relu(x).square();
    case Activation::swiglu:
      return gated([](const at::Tensor& gate) { return at::silu(gate); });
    case Activation::geglu:
      return gated([](const at::Tensor& gate) { return at::gelu(gate); });
  }
  throw Error::internal("an unknown activation");
}

namespace {

constexpr double out_of_sight = -std::numeric_limits<double>::infinity();

// Of `heads` heads from `first` on: 2^(-8 h / n), h = 1, 2, … for a power of two n; for another number of heads those
// of the power below, and then every other one of the power above. Made on the device, because a recorded step cannot
// take them from the host.
at::Tensor alibi_slopes(std::int64_t n_head, std::int64_t first, std::int64_t heads, const at::TensorOptions& options) {
  const auto power = static_cast<double>(std::bit_floor(static_cast<std::uint64_t>(n_head)));
  const at::Tensor head = at::arange(first + 1, first + heads + 1, options.dtype(at::kDouble));
  const at::Tensor place = at::where(head.le(power), head, head - power - 0.5);
  const at::Tensor exponent = place * (-8.0 / power);
  // Not exp2, which LibTorch's CUDA half compiles when a program first uses it. In float32 both are the same.
  return at::pow(at::full_like(exponent, 2.0), exponent).to(options).view({-1, 1, 1});
}

// Where tokens stand, as tensors that the scores are broadcast with.
struct Places {
  at::Tensor queries, keys;
};

// The scores of the heads from `first` on, [B, H, T, S], before anything is hidden.
at::Tensor scores_of(const at::Tensor& q, const at::Tensor& k, const AttentionForm& form, std::int64_t first,
                     const Places& places) {
  at::Tensor products = at::matmul(q, k.transpose(-2, -1)) / std::sqrt(static_cast<double>(q.size(3)));
  switch (form.scores) {
    case ScoreKind::plain:
      return products;
    case ScoreKind::alibi: {
      const at::ScalarType dtype = c10::promoteTypes(products.scalar_type(), at::kFloat);
      const at::Tensor slopes = alibi_slopes(form.n_head, first, q.size(1), q.options().dtype(dtype));
      return products - slopes * (places.queries - places.keys);
    }
  }
  throw Error::internal("an unknown kind of scores");
}

}  // namespace

at::Tensor visible_scores(const at::Tensor& q, const at::Tensor& k, const AttentionForm& form,
                          const at::Tensor& positions, std::int64_t first_head) {
  const at::Tensor places = at::arange(q.size(2), q.options().dtype(at::kLong));
  const at::Tensor scores = scores_of(q, k, form, first_head, {places.unsqueeze(1), places});
  const at::Tensor hidden = hidden_keys(q.size(2), form.pattern, q.options(), positions);
  return scores.masked_fill(hidden, out_of_sight);
}

at::Tensor composed_attention(const at::Tensor& qkv, const AttentionForm& form, Pass& pass) {
  const auto [q, shared_keys, shared_values] = split_heads(qkv.to(at::kFloat), form);
  const at::Tensor k = for_each_query(shared_keys, q), v = for_each_query(shared_values, q);
  const at::Tensor probabilities = at::softmax(visible_scores(q, k, form, pass.training.positions), -1);
  return concatenate_heads(at::matmul(dropout(probabilities, pass), v)).to(qkv.scalar_type());
}

at::Tensor cached_attention(const Heads& heads, const AttentionForm& form, const CachedLayer& cache,
                            const at::Tensor& lengths) {
  const auto& [q, k, v] = heads;
  const at::Tensor position = lengths.view({-1, 1, 1, 1});
  const at::Tensor held = held_positions(lengths + 1, form.pattern, cache.keys.size(2)).unsqueeze(1).unsqueeze(1);
  const at::Tensor slot = held.eq(position).transpose(2, 3);  // [B, 1, capacity, 1]
  cache.keys.copy_(at::where(slot, k, cache.keys));
  cache.values.copy_(at::where(slot, v, cache.values));
  const at::Tensor visible = held.ge(0).logical_and((position - held).remainder(form.pattern.dilation).eq(0));
  const at::Tensor all_keys = for_each_query(cache.keys, q), all_values = for_each_query(cache.values, q);
  if (form.scores == ScoreKind::plain) {
    return concatenate_heads(at::scaled_dot_product_attention(q, all_keys, all_values, visible));
  }
  const at::Tensor scores =
      scores_of(q, all_keys, form, 0, {position, held}).masked_fill(visible.logical_not(), out_of_sight);
  return concatenate_heads(at::matmul(at::softmax(scores, -1).to(q.scalar_type()), all_values));
}

at::Tensor cached_convolve(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& ring,
                           const at::Tensor& lengths) {
  if (!weight.defined()) return x;
  const std::int64_t width = weight.size(0);
  const at::Tensor held = held_positions(lengths + 1, {.window = width}, width);  // [B, K]
  const at::Tensor age = lengths.unsqueeze(1) - held;
  ring.copy_(at::where(age.eq(0).unsqueeze(2), x, ring));
  const at::Tensor products = weight.index_select(0, age.flatten().clamp_max(width - 1)).view(ring.sizes()) * ring;
  return x + products.masked_fill(held.lt(0).unsqueeze(2), 0).sum(1, true);
}

}  // namespace inkling
