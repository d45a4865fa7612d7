#include <ATen/ops/empty_like.h>

#include "backend/cuda_backend.h"
#include "backend/heads.h"

namespace inkling::cuda {

Normalized norm(const at::Tensor& x, const at::Tensor& branch, const NormWeights& weights) {
  const std::int64_t channels = x.size(-1), rows = x.numel() / channels;
  const Normalized result = {.sum = branch.defined() ? at::empty_like(x) : x,
                             .out = at::empty_like(x),
                             .mean = scratch(x, rows),
                             .rstd = scratch(x, rows)};
  with_kernels(x, [&](const auto& kernels, auto element) {
    using Element = decltype(element);
    kernels.norm_forward(elements<Element>(x), elements<Element>(branch), elements<Element>(result.sum),
                         elements<Element>(result.out), floats(result.mean), floats(result.rstd),
                         elements<Element>(weights.weight.value), elements<Element>(weights.bias.value), weights.form,
                         rows, channels, current_stream());
  });
  return result;
}

at::Tensor norm_backward(const at::Tensor& dout, const at::Tensor& dsum, const Normalized& forward,
                         const NormWeights& weights) {
  const at::Tensor dx = at::empty_like(forward.sum);
  const std::int64_t channels = dx.size(-1);
  float* const dweight = floats(weights.weight.gradient_to_add_to());
  float* const dbias = floats(weights.bias.gradient_to_add_to());
  with_kernels(dx, [&](const auto& kernels, auto element) {
    using Element = decltype(element);
    kernels.norm_backward(elements<Element>(dout), elements<Element>(dsum), elements<Element>(forward.sum),
                          floats(forward.mean), floats(forward.rstd), elements<Element>(weights.weight.value),
                          elements<Element>(dx), dweight, dbias, floats(scratch(dx, norm_scratch(channels))),
                          weights.form, dx.numel() / channels, channels, current_stream());
  });
  return dx;
}

namespace {

// Copies the values of packed rows [..., form.packed()].
void copy_values(const at::Tensor& from, const at::Tensor& to, const AttentionForm& form) {
  const std::int64_t first = form.queries() + form.keys();
  to.narrow(-1, first, form.keys()).copy_(from.narrow(-1, first, form.keys()));
}

}  // namespace

NormalizedHeads norm_heads(const at::Tensor& qkv, const AttentionForm& form, const BlockWeights& block) {
  const at::Tensor in = qkv.contiguous();
  const std::int64_t rows = in.numel() / form.packed(), count = rows * (form.n_head + form.n_kv_head);
  const NormalizedHeads result = {.out = at::empty_like(in), .mean = scratch(in, count), .rstd = scratch(in, count)};
  with_kernels(in, [&](const auto& kernels, auto element) {
    using Element = decltype(element);
    for (const NormedHeads& part : normed_heads(rows, form, block)) {
      const HeadRows heads = {rows, part.heads, form.head_size, form.packed()};
      kernels.norm_heads_forward(elements<Element>(in) + part.first, elements<Element>(result.out) + part.first,
                                 floats(result.mean) + part.place, floats(result.rstd) + part.place,
                                 elements<Element>(part.weights.weight.value), part.weights.form, heads,
                                 current_stream());
    }
  });
  copy_values(in, result.out, form);
  return result;
}

at::Tensor norm_heads_backward(const at::Tensor& dout, const at::Tensor& qkv, const NormalizedHeads& forward,
                               const AttentionForm& form, const BlockWeights& block) {
  const at::Tensor in = qkv.contiguous(), dqkv = at::empty_like(in);
  const std::int64_t rows = in.numel() / form.packed();
  with_kernels(in, [&](const auto& kernels, auto element) {
    using Element = decltype(element);
    for (const NormedHeads& part : normed_heads(rows, form, block)) {
      const HeadRows heads = {rows, part.heads, form.head_size, form.packed()};
      kernels.norm_heads_backward(
          elements<Element>(dout) + part.first, elements<Element>(in) + part.first, floats(forward.mean) + part.place,
          floats(forward.rstd) + part.place, elements<Element>(part.weights.weight.value),
          elements<Element>(dqkv) + part.first, floats(part.weights.weight.gradient_to_add_to()),
          floats(scratch(in, norm_scratch(form.head_size))), part.weights.form, heads, current_stream());
    }
  });
  copy_values(dout, dqkv, form);
  return dqkv;
}

}  // namespace inkling::cuda
