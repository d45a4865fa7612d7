#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "backend/choose.h"
#include "backend/elements.h"
#include "kernels/kernel_settings.h"

namespace inkling {
namespace {

at::Tensor sum_of_squares(const at::Tensor& flat) {
  constexpr std::int64_t slice = std::int64_t{1} << 22;  // LibTorch makes a copy in float64 of what it sums
  const at::Tensor total = at::zeros({1}, flat.options().dtype(at::kDouble));
  for (std::int64_t begin = 0; begin < flat.numel(); begin += slice) {
    const at::Tensor part = flat.slice(0, begin, begin + slice);
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
  const at::Tensor &value = range.value, &moment1 = range.moment1, &moment2 = range.moment2;
  const bool clipped = step.max_norm > 0.0 && norm > step.max_norm;
  const at::Tensor gradient = range.gradient.mul(clipped ? step.max_norm / (norm + 1e-6) : 1.0);
  moment1.mul_(step.beta1).add_(gradient, 1.0 - step.beta1);
  moment2.mul_(step.beta2).addcmul_(gradient, gradient, 1.0 - step.beta2);
  value.mul_(1.0 - step.learning_rate * step.weight_decay);
  const at::Tensor denominator = moment2.sqrt().div_(std::sqrt(step.bias_correction2)).add_(step.epsilon);
  value.addcdiv_(moment1, denominator, -step.learning_rate / step.bias_correction1);
  if (range.compute.defined()) range.compute.copy_(value);  // float32 to the compute dtype
}

}  // namespace

const Backend& composed_backend() {
  static const Backend backend = {
      .rows_are_independent = false,
      .activation_dtype = [](at::ScalarType weights) { return weights; },
      .sum_of_squares = sum_of_squares,
      .adamw = adamw,
  };
  return backend;
}

}  // namespace inkling
