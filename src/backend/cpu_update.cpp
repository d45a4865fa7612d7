#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "backend/cpu_backend.h"
#include "backend/elements.h"
#include "backend/newton_schulz.h"
#include "kernels/cpu_kernels.h"
#include "runtime/parallel.h"

namespace inkling::cpu {
namespace {

constexpr std::int64_t smallest_part = 16384;

}  // namespace

at::Tensor sum_of_squares(const at::Tensor& flat) {
  constexpr std::int64_t block = elements_of_block;
  const std::int64_t n = flat.numel();
  std::vector<double> sums(static_cast<std::size_t>((n + block - 1) / block));
  parallel_parts(static_cast<std::int64_t>(sums.size()), 1, [&](std::int64_t, std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      sums[static_cast<std::size_t>(i)] =
          cpu_kernels().sum_of_squares(floats(flat) + i * block, std::min(block, n - i * block));
    }
  });
  return at::scalar_tensor(std::accumulate(sums.begin(), sums.end(), 0.0), at::kDouble).view({1});
}

void adamw(const AdamWRange& range, const at::Tensor& norm_squared) {
  const double norm = std::sqrt(norm_squared.item<double>());
  if (!std::isfinite(norm)) return;
  const AdamWNumbers& step = *reinterpret_cast<const AdamWNumbers*>(elements<double>(range.settings));
  const AdamWSettings settings = {.learning_rate = static_cast<float>(step.learning_rate),
                                  .beta1 = static_cast<float>(step.beta1),
                                  .beta2 = static_cast<float>(step.beta2),
                                  .epsilon = static_cast<float>(step.epsilon),
                                  .weight_decay = static_cast<float>(step.weight_decay),
                                  .clip = static_cast<float>(clip_factor(norm, step.max_norm)),
                                  .bias_correction1 = static_cast<float>(step.bias_correction1),
                                  .bias_correction2 = static_cast<float>(step.bias_correction2)};
  parallel_parts(range.value.numel(), smallest_part, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    cpu_kernels().adamw(floats(range.value) + begin, floats(range.gradient) + begin, floats(range.moment1) + begin,
                        floats(range.moment2) + begin, settings, end - begin);
  });
  if (range.compute.defined()) range.compute.copy_(range.value);  // float32 to the compute dtype
}

void muon(const MuonRange& range, const at::Tensor& norm_squared) {
  const double norm = std::sqrt(norm_squared.item<double>());
  if (!std::isfinite(norm)) return;
  const MuonNumbers& step = *reinterpret_cast<const MuonNumbers*>(elements<double>(range.settings));
  const auto rate = static_cast<float>(step.learning_rate), decay = static_cast<float>(step.weight_decay);
  const auto memory = static_cast<float>(step.momentum);
  const auto clip = static_cast<float>(clip_factor(norm, step.max_norm));
  float* const update = floats(range.memory.update);
  const auto in_parts = [&](const auto& body) {
    parallel_parts(range.value.numel(), smallest_part,
                   [&](std::int64_t, std::int64_t begin, std::int64_t end) { body(begin, end - begin); });
  };
  in_parts([&](std::int64_t begin, std::int64_t n) {
    cpu_kernels().muon_momentum(floats(range.momentum) + begin, floats(range.gradient) + begin, update + begin, memory,
                                clip, n);
  });
  orthogonalize(range);
  in_parts([&](std::int64_t begin, std::int64_t n) {
    cpu_kernels().muon_step(floats(range.value) + begin, update + begin, rate, decay, n);
  });
  if (range.compute.defined()) range.compute.copy_(range.value);  // float32 to the compute dtype
}

}  // namespace inkling::cpu
