#include "optim/adamw.h"

#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/zeros_like.h>
#include <ATen/record_function.h>

#include <cmath>
#include <vector>

#include "kernels/cpu_kernels.h"
#include "ops/parallel.h"

namespace inkling {
namespace {

constexpr std::int64_t smallest_part = 16384;

}  // namespace

double global_norm(const at::Tensor& flat) {
  if (!flat.is_cpu()) return at::linalg_vector_norm(flat, 2).item<double>();
  std::vector<double> parts(static_cast<std::size_t>(at::get_num_threads()), 0.0);
  parallel_parts(flat.numel(), smallest_part, [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
    parts[static_cast<std::size_t>(part)] = cpu_kernels().sum_of_squares(flat.data_ptr<float>() + begin, end - begin);
  });
  double total = 0.0;
  for (double part : parts) total += part;
  return std::sqrt(total);
}

AdamW::AdamW(ParameterArena& arena, const OptimizerConfig& settings)
    : arena_(arena),
      settings_(settings),
      moment1_(at::zeros_like(arena.values())),
      moment2_(at::zeros_like(arena.values())) {}

double AdamW::step(double learning_rate) {
  RECORD_FUNCTION("adamw", std::vector<c10::IValue>());
  const double norm = global_norm(arena_.gradients());
  if (!std::isfinite(norm)) return norm;
  const bool clipped = settings_.grad_clip > 0.0 && norm > settings_.grad_clip;
  const double clip = clipped ? settings_.grad_clip / (norm + 1e-6) : 1.0;
  ++steps_;
  update_range(0, arena_.decay_end(), learning_rate, settings_.weight_decay, clip);
  update_range(arena_.decay_end(), arena_.size(), learning_rate, 0.0, clip);
  arena_.refresh_compute();
  return norm;
}

void AdamW::update_range(std::int64_t begin, std::int64_t end, double learning_rate, double weight_decay, double clip) {
  const double correction1 = 1.0 - std::pow(settings_.beta1, static_cast<double>(steps_));
  const double correction2 = 1.0 - std::pow(settings_.beta2, static_cast<double>(steps_));
  const at::Tensor value = arena_.values().slice(0, begin, end);
  const at::Tensor gradient = arena_.gradients().slice(0, begin, end);
  const at::Tensor moment1 = moment1_.slice(0, begin, end);
  const at::Tensor moment2 = moment2_.slice(0, begin, end);
  if (!value.is_cpu()) {
    const at::Tensor clipped = gradient.mul(clip);
    moment1.mul_(settings_.beta1).add_(clipped, 1.0 - settings_.beta1);
    moment2.mul_(settings_.beta2).addcmul_(clipped, clipped, 1.0 - settings_.beta2);
    value.mul_(1.0 - learning_rate * weight_decay);
    const at::Tensor denominator = moment2.sqrt().div_(std::sqrt(correction2)).add_(settings_.epsilon);
    value.addcdiv_(moment1, denominator, -learning_rate / correction1);
    return;
  }
  const AdamWSettings settings = {.learning_rate = static_cast<float>(learning_rate),
                                  .beta1 = static_cast<float>(settings_.beta1),
                                  .beta2 = static_cast<float>(settings_.beta2),
                                  .epsilon = static_cast<float>(settings_.epsilon),
                                  .weight_decay = static_cast<float>(weight_decay),
                                  .clip = static_cast<float>(clip),
                                  .bias_correction1 = static_cast<float>(correction1),
                                  .bias_correction2 = static_cast<float>(correction2)};
  parallel_parts(value.numel(), smallest_part, [&](std::int64_t, std::int64_t first, std::int64_t last) {
    cpu_kernels().adamw(value.data_ptr<float>() + first, gradient.data_ptr<float>() + first,
                        moment1.data_ptr<float>() + first, moment2.data_ptr<float>() + first, settings, last - first);
  });
}

}  // namespace inkling
