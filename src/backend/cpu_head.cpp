#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/scalar_tensor.h>

#include <numeric>
#include <vector>

#include "backend/cpu_backend.h"
#include "backend/elements.h"
#include "kernels/cpu_kernels.h"
#include "runtime/parallel.h"

namespace inkling::cpu {

// The logits become their own gradient in the pass that computes the loss, so [rows, V] exists once.
Scored head(const at::Tensor& x, const at::Tensor& targets, const Weight& table, double softcap) {
  const at::Tensor logits = at::mm(x, in_float32(table).t());
  const std::int64_t vocabulary = logits.size(1);
  const auto scored = targets.ge(0).sum().item<std::int64_t>();
  const float scale = 1.0f / static_cast<float>(scored);
  std::vector<double> losses(static_cast<std::size_t>(at::get_num_threads()), 0.0);  // of each part
  parallel_parts(x.size(0), 8, [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
    losses[static_cast<std::size_t>(part)] =
        cpu_kernels().cross_entropy(floats(logits) + begin * vocabulary, targets.data_ptr<std::int64_t>() + begin,
                                    scale, static_cast<float>(softcap), end - begin, vocabulary);
  });
  const double loss = std::accumulate(losses.begin(), losses.end(), 0.0);
  return {at::scalar_tensor(loss / static_cast<double>(scored), x.options().requires_grad(false)), logits};
}

at::Tensor head_backward(const at::Tensor& dloss, const at::Tensor& x, const at::Tensor& gradients,
                         const Weight& table) {
  const auto factor = dloss.item<double>();
  at::Tensor(table.gradient).addmm_(gradients.t(), x, table.begin_write(), factor);
  const at::Tensor dx = at::mm(gradients, table.value);
  return factor == 1.0 ? dx : dx.mul_(factor);
}

at::Tensor logits(const at::Tensor& x, const Weight& table) { return at::matmul(x, in_float32(table).t()); }

at::Tensor decode_logits(const at::Tensor& x, const Weight& table) {
  const at::Tensor& matrix = table.value;
  const at::Tensor rows = x.contiguous();
  const at::Tensor out = at::empty({rows.size(0), matrix.size(0)}, rows.options().dtype(at::kFloat));
  parallel_parts(matrix.size(0), 16, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    if (matrix.scalar_type() == at::kBFloat16) {
      cpu_kernels().rows_times_transposed_bfloat16(floats(rows), elements<std::uint16_t>(matrix), floats(out),
                                                   rows.size(0), rows.size(1), matrix.size(0), begin, end);
    } else {
      cpu_kernels().rows_times_transposed(floats(rows), floats(matrix), floats(out), rows.size(0), rows.size(1),
                                          matrix.size(0), begin, end);
    }
  });
  return out;
}

}  // namespace inkling::cpu
