#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/matmul.h>

#include "backend/cuda_backend.h"
#include "backend/cuda_products.h"

namespace inkling::cuda {

namespace {

// Rows of logits begin at multiples of 128 elements.
std::int64_t stride_of_logits(std::int64_t vocabulary) { return (vocabulary + 127) / 128 * 128; }

// Products want extents that are multiples of 8: with GPT-2's 50,257 tokens those of the head take four times as long
// (96 instead of 22 ms for 64 x 1,024 tokens on an H100). So they get a copy of the table with rows of zeros behind it.
std::int64_t padded_vocabulary(const Weight& table) {
  const std::int64_t vocabulary = table.value.size(0);
  return vocabulary % 8 == 0 ? vocabulary : stride_of_logits(vocabulary);
}

at::Tensor padded(const Weight& table) {
  const std::int64_t missing = padded_vocabulary(table) - table.value.size(0);
  return missing == 0 ? table.value : at::constant_pad_nd(table.value, {0, 0, 0, missing});
}

void add_table_gradient(const at::Tensor& dlogits, const at::Tensor& x, const Weight& table) {
  const bool accumulate = table.begin_write() != 0.0;
  if (dlogits.size(1) == table.value.size(0))
    return multiply(dlogits.t(), x, table.gradient, {.accumulate = accumulate});
  const at::Tensor whole = at::empty({dlogits.size(1), x.size(1)}, table.gradient.options());
  multiply(dlogits.t(), x, whole);
  const at::Tensor gradient = table.gradient, part = whole.narrow(0, 0, table.value.size(0));
  accumulate ? gradient.add_(part) : gradient.copy_(part);
}

}  // namespace

// The host does not wait for the GPU: the number of scored targets and the upstream gradient stay there.
Scored head(const at::Tensor& x, const at::Tensor& targets, const Weight& table, double softcap) {
  const std::int64_t rows = x.size(0), vocabulary = table.value.size(0), stride = stride_of_logits(vocabulary);
  const at::Tensor logits = at::empty({rows, stride}, x.options().requires_grad(false));
  multiply(x, padded(table).t(), logits.narrow(1, 0, padded_vocabulary(table)));
  const at::Tensor scale = targets.ge(0).sum().to(at::kFloat).reciprocal();
  const at::Tensor losses = scratch(x, rows);
  with_kernels(logits, [&](const auto& kernels, auto element) {
    kernels.cross_entropy(elements<decltype(element)>(logits), elements<std::int64_t>(targets), floats(losses),
                          floats(scale), static_cast<float>(softcap), rows, vocabulary, stride, current_stream());
  });
  return {losses.sum().mul(scale), logits};
}

at::Tensor head_backward(const at::Tensor& dloss, const at::Tensor& x, const at::Tensor& gradients,
                         const Weight& table) {
  const at::Tensor dlogits = gradients.narrow(1, 0, padded_vocabulary(table));  // 0 behind the vocabulary
  const auto scaled = [&](const at::Tensor& rows) {  // in float32, so that the factor is not rounded
    return rows.to(at::kFloat).mul(dloss).to(rows.scalar_type());
  };
  add_table_gradient(dlogits, scaled(x), table);
  const at::Tensor dx = at::empty_like(x);
  multiply(dlogits, padded(table), dx);
  return scaled(dx);
}

at::Tensor logits(const at::Tensor& x, const Weight& table) {
  return at::matmul(x, padded(table).t()).narrow(-1, 0, table.value.size(0));
}

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
