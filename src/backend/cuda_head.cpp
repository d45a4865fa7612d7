#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/matmul.h>

#include "backend/cuda_backend.h"
#include "backend/cuda_products.h"

namespace inkling::cuda {

// The host does not wait for the GPU: the number of scored targets and the upstream gradient stay there. Rows of logits
// begin at multiples of 128 elements, which makes products faster.
Scored head(const at::Tensor& x, const at::Tensor& targets, const Weight& table, double softcap) {
  const std::int64_t rows = x.size(0), vocabulary = table.value.size(0), stride = (vocabulary + 127) / 128 * 128;
  const at::Tensor padded = at::empty({rows, stride}, x.options().requires_grad(false));
  multiply(x, table.value.t(), padded.narrow(1, 0, vocabulary));
  const at::Tensor scale = targets.ge(0).sum().to(at::kFloat).reciprocal();
  const at::Tensor losses = scratch(x, rows);
  with_kernels(padded, [&](const auto& kernels, auto element) {
    kernels.cross_entropy(elements<decltype(element)>(padded), elements<std::int64_t>(targets), floats(losses),
                          floats(scale), static_cast<float>(softcap), rows, vocabulary, stride, current_stream());
  });
  return {losses.sum().mul(scale), padded};
}

at::Tensor head_backward(const at::Tensor& dloss, const at::Tensor& x, const at::Tensor& gradients,
                         const Weight& table) {
  const at::Tensor dlogits = gradients.narrow(1, 0, table.value.size(0));
  const auto scaled = [&](const at::Tensor& rows) {  // in float32, so that the factor is not rounded
    return rows.to(at::kFloat).mul(dloss).to(rows.scalar_type());
  };
  multiply(dlogits.t(), scaled(x), table.gradient, {.accumulate = table.begin_write() != 0.0});
  const at::Tensor dx = at::empty_like(x);
  multiply(dlogits, table.value, dx);
  return scaled(dx);
}

at::Tensor logits(const at::Tensor& x, const Weight& table) { return at::matmul(x, table.value.t()); }

at::Tensor decode_logits(const at::Tensor& x, const Weight& table) {
  const at::Tensor rows = x.contiguous();
  const std::int64_t vocabulary = table.value.size(0);
  const at::Tensor out = at::empty({rows.size(0), vocabulary}, rows.options().dtype(at::kFloat));
  with_kernels(rows, [&](const auto& kernels, auto element) {
    using Element = decltype(element);
    kernels.rows_times_transposed(elements<Element>(rows), elements<Element>(table.value), floats(out), rows.size(0),
                                  rows.size(1), vocabulary, current_stream());
  });
  return out;
}

}  // namespace inkling::cuda
