#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <array>

#include "backend/cpu_backend.h"
#include "backend/elements.h"
#include "backend/heads.h"
#include "kernels/cpu_kernels.h"
#include "runtime/parallel.h"

namespace inkling::cpu {
namespace {

// Null stays null.
float* at_offset(float* values, std::int64_t offset) { return values == nullptr ? nullptr : values + offset; }

// Of one packed row.
void copy_values(const float* from, float* to, const AttentionForm& form) {
  const std::int64_t first = form.queries() + form.keys();
  std::copy_n(from + first, form.keys(), to + first);
}

}  // namespace

Normalized norm(const at::Tensor& x, const at::Tensor& branch, const NormWeights& weights) {
  const std::int64_t channels = x.size(-1), rows = x.numel() / channels;
  const Normalized result = {.sum = branch.defined() ? at::empty_like(x) : x,
                             .out = at::empty_like(x),
                             .mean = at::empty({rows}, x.options().requires_grad(false)),
                             .rstd = at::empty({rows}, x.options().requires_grad(false))};
  const at::Tensor weight = in_float32(weights.weight), bias = in_float32(weights.bias);
  parallel_parts(rows, 16, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    const std::int64_t offset = begin * channels;
    cpu_kernels().norm_forward(floats(x) + offset, at_offset(floats(branch), offset), floats(result.sum) + offset,
                               floats(result.out) + offset, floats(result.mean) + begin, floats(result.rstd) + begin,
                               floats(weight), floats(bias), weights.form, end - begin, channels);
  });
  return result;
}

at::Tensor norm_backward(const at::Tensor& dout, const at::Tensor& dsum, const Normalized& forward,
                         const NormWeights& weights) {
  const at::Tensor& sum = forward.sum;
  const at::Tensor dx = at::empty_like(sum);
  const std::int64_t channels = sum.size(-1);
  float* const dweight = floats(weights.weight.gradient_to_add_to());
  float* const dbias = floats(weights.bias.gradient_to_add_to());
  add_over_parts(sum.numel() / channels, {dweight, dbias}, channels,
                 [&](std::int64_t begin, std::int64_t end, float* const* sums) {
                   const std::int64_t offset = begin * channels;
                   cpu_kernels().norm_backward(
                       floats(dout) + offset, at_offset(floats(dsum), offset), floats(sum) + offset,
                       floats(forward.mean) + begin, floats(forward.rstd) + begin, floats(weights.weight.value),
                       floats(dx) + offset, sums[0], sums[1], weights.form, end - begin, channels);
                 });
  return dx;
}

NormalizedHeads norm_heads(const at::Tensor& qkv, const AttentionForm& form, const BlockWeights& block) {
  const at::Tensor in = qkv.contiguous(), out = at::empty_like(in);
  const std::int64_t rows = in.numel() / form.packed(), count = rows * (form.n_head + form.n_kv_head);
  const auto options = in.options().requires_grad(false);
  const NormalizedHeads result = {.out = out, .mean = at::empty({count}, options), .rstd = at::empty({count}, options)};
  const auto parts = normed_heads(rows, form, block);
  const std::array<at::Tensor, 2> weights = {in_float32(block.q_norm.weight), in_float32(block.k_norm.weight)};
  parallel_parts(rows, 16, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      float* const from = floats(in) + row * form.packed();
      float* const to = floats(out) + row * form.packed();
      for (std::size_t i = 0; i < parts.size(); ++i) {
        const auto& [first, heads, place_of_all, norm] = parts[i];
        const std::int64_t place = place_of_all + row * heads;
        cpu_kernels().norm_forward(from + first, nullptr, from + first, to + first, floats(result.mean) + place,
                                   floats(result.rstd) + place, floats(weights[i]), nullptr, norm.form, heads,
                                   form.head_size);
      }
      copy_values(from, to, form);
    }
  });
  return result;
}

at::Tensor norm_heads_backward(const at::Tensor& dout, const at::Tensor& qkv, const NormalizedHeads& forward,
                               const AttentionForm& form, const BlockWeights& block) {
  const at::Tensor in = qkv.contiguous(), dqkv = at::empty_like(in);
  const std::int64_t rows = in.numel() / form.packed();
  const auto parts = normed_heads(rows, form, block);
  float* const dqueries = floats(block.q_norm.weight.gradient_to_add_to());
  float* const dkeys = floats(block.k_norm.weight.gradient_to_add_to());
  add_over_parts(
      rows, {dqueries, dkeys}, form.head_size, [&](std::int64_t begin, std::int64_t end, float* const* sums) {
        for (std::int64_t row = begin; row < end; ++row) {
          const float* const upstream = floats(dout) + row * form.packed();
          const float* const from = floats(in) + row * form.packed();
          float* const to = floats(dqkv) + row * form.packed();
          for (std::size_t i = 0; i < parts.size(); ++i) {
            const auto& [first, heads, place_of_all, norm] = parts[i];
            const std::int64_t place = place_of_all + row * heads;
            cpu_kernels().norm_backward(upstream + first, nullptr, from + first, floats(forward.mean) + place,
                                        floats(forward.rstd) + place, floats(norm.weight.value), to + first, sums[i],
                                        nullptr, norm.form, heads, form.head_size);
          }
          copy_values(upstream, to, form);
        }
      });
  return dqkv;
}

}  // namespace inkling::cpu
