#include "optim/adamw.h"

#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <ATen/record_function.h>

#include <cmath>
#include <vector>

#include "kernels/cpu_kernels.h"
#include "ops/cuda_library.h"
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

AdamW::AdamW(ParameterArena& arena, const OptimizerConfig& settings, Kernels kernels)
    : arena_(arena),
      settings_(settings),
      kernels_(kernels),
      moment1_(at::zeros_like(arena.values())),
      moment2_(at::zeros_like(arena.values())) {
  if (kernels_ == Kernels::reference || !cuda_library(arena.values())) return;
  const auto options = arena.values().options();
  device_ = {.settings = at::zeros({2, 8}, options),
             .steps = at::zeros({1}, options.dtype(at::kDouble)),
             .norm_squared = at::zeros({1}, options),
             .scratch = at::zeros({square_parts}, options.dtype(at::kDouble))};
  // The members of AdamWStep in their order; the corrections are computed as the steps are counted.
  const double members[] = {
      0, settings.beta1, settings.beta2, settings.epsilon, settings.weight_decay, settings.grad_clip};
  for (std::int64_t i = 0; i < 6; ++i) device_.settings.select(1, i).fill_(members[i]);
  device_.settings.select(0, 1).select(0, 4).zero_();  // the second half is not decayed
}

std::int64_t AdamW::steps() const {
  return device_.steps.defined() ? static_cast<std::int64_t>(device_.steps.item<double>()) : steps_;
}

void AdamW::set_steps(std::int64_t steps) {
  steps_ = steps;
  if (device_.steps.defined()) device_.steps.fill_(static_cast<double>(steps));
}

double AdamW::step(double learning_rate) {
  RECORD_FUNCTION("adamw", std::vector<c10::IValue>());
  if (device_.steps.defined()) {
    set_learning_rate(learning_rate);
    queue_update();
    return std::sqrt(device_.norm_squared.item<double>());
  }
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

void AdamW::set_learning_rate(double learning_rate) { device_.settings.select(1, 0).fill_(learning_rate); }

void AdamW::queue_update() {
  const at::Tensor gradients = arena_.gradients();
  const CudaLibrary& cuda = *cuda_library(gradients);
  const Stream stream = current_stream(gradients);
  cuda.float32.sum_of_squares(elements<float>(gradients), arena_.size(), elements<double>(device_.scratch),
                              elements<float>(device_.norm_squared), stream);
  device_.steps.add_(device_.norm_squared.isfinite());
  device_.settings.select(1, 6).copy_(at::pow(settings_.beta1, device_.steps).neg_().add_(1.0).expand({2}));
  device_.settings.select(1, 7).copy_(at::pow(settings_.beta2, device_.steps).neg_().add_(1.0).expand({2}));
  const at::Tensor compute = arena_.compute_values();
  const bool separate = !compute.is_same(arena_.values());
  with_kernels(cuda, compute, [&](const auto& kernels, auto element) {
    const std::int64_t ends[] = {0, arena_.decay_end(), arena_.size()};
    for (std::int64_t half = 0; half < 2; ++half) {
      const std::int64_t begin = ends[half];
      kernels.adamw(elements<float>(arena_.values()) + begin, elements<float>(gradients) + begin,
                    elements<float>(moment1_) + begin, elements<float>(moment2_) + begin,
                    separate ? elements<decltype(element)>(compute) + begin : nullptr,
                    reinterpret_cast<const AdamWStep*>(elements<float>(device_.settings)) + half,
                    elements<float>(device_.norm_squared), ends[half + 1] - begin, stream);
    }
  });
}

void AdamW::update_range(std::int64_t begin, std::int64_t end, double learning_rate, double weight_decay, double clip) {
  if (kernels_ == Kernels::reference) {
    compose_update(begin, end, learning_rate, weight_decay, clip);
    return;
  }
  const double correction1 = 1.0 - std::pow(settings_.beta1, static_cast<double>(steps_));
  const double correction2 = 1.0 - std::pow(settings_.beta2, static_cast<double>(steps_));
  const AdamWSettings settings = {.learning_rate = static_cast<float>(learning_rate),
                                  .beta1 = static_cast<float>(settings_.beta1),
                                  .beta2 = static_cast<float>(settings_.beta2),
                                  .epsilon = static_cast<float>(settings_.epsilon),
                                  .weight_decay = static_cast<float>(weight_decay),
                                  .clip = static_cast<float>(clip),
                                  .bias_correction1 = static_cast<float>(correction1),
                                  .bias_correction2 = static_cast<float>(correction2)};
  parallel_parts(end - begin, smallest_part, [&](std::int64_t, std::int64_t first, std::int64_t last) {
    const std::int64_t from = begin + first;
    cpu_kernels().adamw(elements<float>(arena_.values()) + from, elements<float>(arena_.gradients()) + from,
                        elements<float>(moment1_) + from, elements<float>(moment2_) + from, settings, last - first);
  });
}

// The formula, one of LibTorch's operations at a time.
void AdamW::compose_update(std::int64_t begin, std::int64_t end, double learning_rate, double weight_decay,
                           double clip) {
  const double correction1 = 1.0 - std::pow(settings_.beta1, static_cast<double>(steps_));
  const double correction2 = 1.0 - std::pow(settings_.beta2, static_cast<double>(steps_));
  const at::Tensor value = arena_.values().slice(0, begin, end);
  const at::Tensor moment1 = moment1_.slice(0, begin, end);
  const at::Tensor moment2 = moment2_.slice(0, begin, end);
  const at::Tensor clipped = arena_.gradients().slice(0, begin, end).mul(clip);
  moment1.mul_(settings_.beta1).add_(clipped, 1.0 - settings_.beta1);
  moment2.mul_(settings_.beta2).addcmul_(clipped, clipped, 1.0 - settings_.beta2);
  value.mul_(1.0 - learning_rate * weight_decay);
  const at::Tensor denominator = moment2.sqrt().div_(std::sqrt(correction2)).add_(settings_.epsilon);
  value.addcdiv_(moment1, denominator, -learning_rate / correction1);
}

}  // namespace inkling
