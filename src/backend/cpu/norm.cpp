#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "backend/cpu/backend.h"
#include "backend/elements.h"
#include "kernels/cpu_kernels.h"
#include "runtime/parallel.h"

namespace inkling::cpu {
namespace {

// Null stays null.
float* at_offset(float* values, std::int64_t offset) { return values == nullptr ? nullptr : values + offset; }

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

}  // namespace inkling::cpu
