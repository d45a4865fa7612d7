#include <ATen/ops/scalar_tensor.h>

#include <cmath>

#include "backend/cpu/backend.h"
#include "backend/elements.h"
#include "kernels/cpu_kernels.h"
#include "runtime/parallel.h"

namespace inkling::cpu {
namespace {

constexpr std::int64_t smallest_part = 16384;

}  // namespace

at::Tensor sum_of_squares(const at::Tensor& flat) {
  const double total = sum_over_parts(flat.numel(), smallest_part, [&](std::int64_t begin, std::int64_t end) {
    return cpu_kernels().sum_of_squares(floats(flat) + begin, end - begin);
  });
  return at::scalar_tensor(total, at::kDouble).view({1});
}

void adamw(const AdamWRange& range, const at::Tensor& norm_squared) {
  const double norm = std::sqrt(norm_squared.item<double>());
  if (!std::isfinite(norm)) return;
  const AdamWNumbers& step = *reinterpret_cast<const AdamWNumbers*>(elements<double>(range.settings));
  const bool clipped = step.max_norm > 0.0 && norm > step.max_norm;
  const AdamWSettings settings = {.learning_rate = static_cast<float>(step.learning_rate),
                                  .beta1 = static_cast<float>(step.beta1),
                                  .beta2 = static_cast<float>(step.beta2),
                                  .epsilon = static_cast<float>(step.epsilon),
                                  .weight_decay = static_cast<float>(step.weight_decay),
                                  .clip = static_cast<float>(clipped ? step.max_norm / (norm + 1e-6) : 1.0),
                                  .bias_correction1 = static_cast<float>(step.bias_correction1),
                                  .bias_correction2 = static_cast<float>(step.bias_correction2)};
  parallel_parts(range.value.numel(), smallest_part, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    cpu_kernels().adamw(floats(range.value) + begin, floats(range.gradient) + begin, floats(range.moment1) + begin,
                        floats(range.moment2) + begin, settings, end - begin);
  });
  if (range.compute.defined()) range.compute.copy_(range.value);  // float32 to the compute dtype
}

}  // namespace inkling::cpu
