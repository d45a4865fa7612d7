#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "backend/choose.h"
#include "backend/elements.h"
#include "backend/newton_schulz.h"
#include "kernels/kernel_settings.h"

namespace inkling {
namespace {

// How many elements of flat memory to work on at a time, so that what is made of them on the way is small, such as
// LibTorch's copies in float64 of what it sums. On a GPU each slice costs launches.
std::int64_t slice_of(const at::Tensor& flat) { return std::int64_t{1} << (flat.is_cpu() ? 18 : 22); }

at::Tensor sum_of_squares(const at::Tensor& flat) {
  const at::Tensor total = at::zeros({1}, flat.options().dtype(at::kDouble));
  for (const at::Tensor& part : flat.split(slice_of(flat))) {
    total.add_(at::linalg_vector_norm(part, 2, {}, false, at::kDouble).square());
  }
  return total;
}

// The formula, one operation at a time.
void adamw(const AdamWRange& range, const at::Tensor& norm_squared) {
  const double norm = std::sqrt(norm_squared.item<double>());
  if (!std::isfinite(norm)) return;
  const at::Tensor on_host = range.settings.cpu();
  const AdamWNumbers& step = *reinterpret_cast<const AdamWNumbers*>(elements<double>(on_host));
  const std::int64_t slice = slice_of(range.value);
  for (std::int64_t begin = 0; begin < range.value.numel(); begin += slice) {
    const auto part_of = [&](const at::Tensor& flat) { return flat.slice(0, begin, begin + slice); };
    const at::Tensor value = part_of(range.value), moment1 = part_of(range.moment1), moment2 = part_of(range.moment2);
    const at::Tensor gradient = part_of(range.gradient).mul(clip_factor(norm, step.max_norm));
    moment1.mul_(step.beta1).add_(gradient, 1.0 - step.beta1);
    moment2.mul_(step.beta2).addcmul_(gradient, gradient, 1.0 - step.beta2);
    value.mul_(1.0 - step.learning_rate * step.weight_decay);
    const at::Tensor denominator = moment2.sqrt().div_(std::sqrt(step.bias_correction2)).add_(step.epsilon);
    value.addcdiv_(moment1, denominator, -step.learning_rate / step.bias_correction1);
  }
  if (range.compute.defined()) range.compute.copy_(range.value);  // float32 to the compute dtype
}

// Jordan et al. 2024, the function zeropower_via_newtonschulz5, but in float32. u: [n, in, out]
at::Tensor nearly_orthogonal(const at::Tensor& u, std::int64_t steps) {
  const bool is_tall = u.size(1) > u.size(2);
  at::Tensor x = is_tall ? u.mT() : u;
  x = x / (at::linalg_vector_norm(x, 2, {1, 2}, true) + least_muon_norm);
  for (std::int64_t step = 0; step < steps; ++step) {
    const at::Tensor gram = at::matmul(x, x.mT());
    x = newton_schulz_a * x + at::matmul(newton_schulz_b * gram + newton_schulz_c * at::matmul(gram, gram), x);
  }
  return is_tall ? x.mT() : x;
}

void muon(const MuonRange& range, const at::Tensor& norm_squared) {
  const double norm = std::sqrt(norm_squared.item<double>());
  if (!std::isfinite(norm)) return;
  const at::Tensor on_host = range.settings.cpu();
  const MuonNumbers& step = *reinterpret_cast<const MuonNumbers*>(elements<double>(on_host));
  for (const MuonMatrices& matrices : range.matrices) {
    const at::Tensor momentum = matrices.part_of(range.momentum), value = matrices.part_of(range.value);
    at::Tensor update = matrices.part_of(range.gradient).mul(clip_factor(norm, step.max_norm));
    momentum.mul_(step.momentum).add_(update);
    update.add_(momentum, step.momentum);
    value.mul_(1.0 - step.learning_rate * step.weight_decay);
    value.sub_(nearly_orthogonal(update, range.newton_schulz_steps), step.learning_rate * matrices.scale);
  }
  if (range.compute.defined()) range.compute.copy_(range.value);  // float32 to the compute dtype
}

}  // namespace

const Backend& composed_backend() {
  static const Backend backend = {
      .rows_are_independent = false,
      .muon_works_in_its_memory = false,
      .activation_dtype = [](at::ScalarType weights) { return weights; },
      .sum_of_squares = sum_of_squares,
      .adamw = adamw,
      .muon = muon,
  };
  return backend;
}

}  // namespace inkling
