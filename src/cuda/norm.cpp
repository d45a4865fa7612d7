#include <ATen/ops/empty_like.h>

#include "cuda/backend.h"
#include "cuda/kernels_of.h"

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

}  // namespace inkling::cuda
