#include <ATen/ops/empty.h>

#include <optional>

#include "backend/cuda_backend.h"

namespace inkling::cuda {
namespace {

// x W + b of a few rows [B, 1, in]; with an activation, that of it.
at::Tensor few_rows_linear(const at::Tensor& x, const LinearWeights& weights,
                           std::optional<Activation> activation = {}) {
  const std::int64_t count = x.size(0), inner = x.size(2), columns = weights.weight.value.size(1);
  const at::Tensor out = at::empty({count, 1, columns}, x.options());
  with_kernels(x, [&](const auto& kernels, auto element) {
    using Element = decltype(element);
    const auto *const in = elements<Element>(x), *const weight = elements<Element>(weights.weight.value),
                      *const bias = elements<Element>(weights.bias.value);
    if (activation) {
      kernels.rows_times_matrix_activated(in, weight, bias, elements<Element>(out), *activation, count, inner, columns,
                                          current_stream());
    } else {
      kernels.rows_times_matrix(in, weight, bias, elements<Element>(out), count, inner, columns, current_stream());
    }
  });
  return out;
}

// The first half of the MLP. A gated activation needs two columns of the product for each of its own.
at::Tensor widen(const at::Tensor& x, const MlpWeights& weights) {
  if (!is_gated(weights.activation)) return few_rows_linear(x, weights.c_fc, weights.activation);
  return activated(few_rows_linear(x, weights.c_fc), weights.activation);
}

at::Tensor attend_cached(const at::Tensor& qkv, const DecodedBlock& block) {
  const CachedLayer& cache = block.cache;
  const std::int64_t batch = qkv.size(0), capacity = cache.keys.size(2);
  const at::Tensor out = at::empty({batch, 1, block.form.queries()}, qkv.options());
  const at::Tensor chunks =
      scratch(qkv, attend_scratch(batch, block.form.n_head, block.form.head_size, block.form.pattern.ring(capacity)));
  with_kernels(qkv, [&](const auto& kernels, auto element) {
    using Element = decltype(element);
    kernels.attend_cached(elements<Element>(qkv), elements<Element>(cache.keys), elements<Element>(cache.values),
                          elements<std::int64_t>(block.lengths), elements<Element>(out), floats(chunks),
                          elements<std::uint32_t>(cache.arrivals), batch, block.form, capacity, current_stream());
  });
  return out;
}

}  // namespace

ResidualStream decode_block(const ResidualStream& in, const DecodedBlock& block) {
  const auto& [ln_1, conv_1, c_attn, q_norm, k_norm, c_proj, ln_2, conv_2, mlp_weights] = block.weights;
  const auto convolved = [&](const at::Tensor& x, const Weight& conv, std::size_t number) {
    return conv.defined() ? conv_cached(x, block.cache.conv_inputs[number], conv, block.lengths) : x;
  };
  at::Tensor qkv = few_rows_linear(convolved(in.normed, conv_1, 0), c_attn);
  if (q_norm.weight.defined()) qkv = norm_heads(qkv, block.form, block.weights).out;
  if (block.rotation.defined()) qkv = rotate(qkv, block.form, block.rotation, false);
  const at::Tensor attended = few_rows_linear(attend_cached(qkv, block), c_proj);
  const Normalized middle = norm(in.x, attended, ln_2);
  const at::Tensor wide = widen(convolved(middle.out, conv_2, 1), mlp_weights);
  const Normalized last = norm(middle.sum, few_rows_linear(wide, mlp_weights.c_proj), block.next_norm);
  return {last.sum, last.out};
}

void draw(const at::Tensor& logits, const DrawState& state, const SamplingSettings& settings, std::int64_t vocab_size) {
  const auto whole = [](const at::Tensor& numbers) { return elements<std::int64_t>(numbers); };
  cuda_kernels<float>().sample(floats(logits), whole(state.contexts), whole(state.lengths),
                               elements<std::uint64_t>(state.random), whole(state.places), whole(state.tokens),
                               whole(state.drawn), settings, logits.size(0), vocab_size, logits.size(1),
                               state.contexts.size(1), current_stream());
}

}  // namespace inkling::cuda
