#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bitwise_right_shift.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "backend/choose.h"
#include "backend/elements.h"
#include "backend/newton_schulz.h"
#include "base/random.h"
#include "kernels/kernel_settings.h"

namespace inkling {
namespace {

// How many elements of flat memory to work on at a time, so that what is made of them on the way is small, such as
// LibTorch's copies in float64 of what it sums. On a GPU each slice costs launches.
std::int64_t slice_of(const at::Tensor& flat) { return std::int64_t{1} << (flat.is_cpu() ? 18 : 24); }

at::Tensor sum_of_squares(const at::Tensor& flat) {
  const at::Tensor total = at::zeros({1}, flat.options().dtype(at::kDouble));
  for (const at::Tensor& part : flat.split(slice_of(flat))) {
    total.add_(at::linalg_vector_norm(part, 2, {}, false, at::kDouble).square());
  }
  return total;
}

// What the formulas multiply by: numbers where the host has them, and float32 tensors [] on the device where it would
// have to wait for them. These add x, x y or x / y, times such a factor.
void add(const at::Tensor& to, const at::Tensor& x, double factor) { to.add_(x, factor); }
void add(const at::Tensor& to, const at::Tensor& x, const at::Tensor& factor) { to.addcmul_(x, factor); }

void add_product(const at::Tensor& to, const at::Tensor& x, const at::Tensor& y, double factor) {
  to.addcmul_(x, y, factor);
}
void add_product(const at::Tensor& to, const at::Tensor& x, const at::Tensor& y, const at::Tensor& factor) {
  to.addcmul_(x, y * factor);
}

void add_quotient(const at::Tensor& to, const at::Tensor& x, const at::Tensor& y, double factor) {
  to.addcdiv_(x, y, factor);
}
void add_quotient(const at::Tensor& to, const at::Tensor& x, const at::Tensor& y, const at::Tensor& factor) {
  to.addcdiv_(x * factor, y);
}

// What the gradient is multiplied by, from its norm, which the host waits for. None where the norm is not finite.
struct KnownClip {
  double factor;

  static std::optional<KnownClip> from(const at::Tensor& norm_squared, double max_norm) {
    const double norm = std::sqrt(norm_squared.item<double>());
    if (!std::isfinite(norm)) return std::nullopt;
    return KnownClip{clip_factor(norm, max_norm)};
  }

  at::Tensor of(const at::Tensor& gradient) const { return gradient.mul(factor); }
};

// The same without waiting. Where the norm is not finite, the gradient becomes -0, which added to anything changes no
// bit of it, and the other factors become what leaves a number as it is: those of what is kept 1, of what is added 0.
// (A value of -0 may become 0, as the step that it makes may be either.)
struct QueuedClip {
  at::Tensor is_finite, factor, nothing;

  QueuedClip(const at::Tensor& norm_squared, const at::Tensor& max_norm, const at::TensorOptions& options) {
    const at::Tensor norm = norm_squared.select(0, 0).sqrt();
    const at::Tensor is_small = norm.le(max_norm).logical_or_(max_norm.le(0.0));
    is_finite = norm.isfinite();
    factor = kept({max_norm.div(norm + 1e-6).masked_fill_(is_small, 1.0)})[0];
    nothing = at::full({}, -0.0, options);
  }

  std::vector<at::Tensor> kept(at::TensorList factors) const { return unless_skipped(factors, 1.0); }
  std::vector<at::Tensor> added(at::TensorList factors) const { return unless_skipped(factors, 0.0); }

  at::Tensor of(const at::Tensor& gradient) const { return at::where(is_finite, gradient, nothing).mul_(factor); }

 private:
  std::vector<at::Tensor> unless_skipped(at::TensorList factors, double otherwise) const {
    return at::stack(factors).masked_fill_(is_finite.logical_not(), otherwise).to(at::kFloat).unbind();
  }
};

template <typename Factor>
struct AdamWFactors {
  Factor beta1, beta2, decay, root_of_correction2, epsilon;  // of what is kept
  Factor rest1, rest2, rate;                                 // of what is added
};

// The formula, one operation at a time.
template <typename Clip, typename Factor>
void step_adamw(const AdamWRange& range, const Clip& clip, const AdamWFactors<Factor>& factors) {
  const std::int64_t slice = slice_of(range.value);
  for (std::int64_t begin = 0; begin < range.value.numel(); begin += slice) {
    const auto part_of = [&](const at::Tensor& flat) { return flat.slice(0, begin, begin + slice); };
    const at::Tensor value = part_of(range.value), moment1 = part_of(range.moment1), moment2 = part_of(range.moment2);
    const at::Tensor gradient = clip.of(part_of(range.gradient));
    add(moment1.mul_(factors.beta1), gradient, factors.rest1);
    add_product(moment2.mul_(factors.beta2), gradient, gradient, factors.rest2);
    const at::Tensor denominator = moment2.sqrt().div_(factors.root_of_correction2).add_(factors.epsilon);
    add_quotient(value.mul_(factors.decay), moment1, denominator, factors.rate);
  }
  if (range.compute.defined()) range.compute.copy_(range.value);  // float32 to the compute dtype
}

void adamw(const AdamWRange& range, const at::Tensor& norm_squared) {
  const AdamWNumbers& step = *reinterpret_cast<const AdamWNumbers*>(elements<double>(range.settings));
  const auto clip = KnownClip::from(norm_squared, step.max_norm);
  if (!clip) return;
  step_adamw<KnownClip, double>(range, *clip,
                                {.beta1 = step.beta1,
                                 .beta2 = step.beta2,
                                 .decay = 1.0 - step.learning_rate * step.weight_decay,
                                 .root_of_correction2 = std::sqrt(step.bias_correction2),
                                 .epsilon = step.epsilon,
                                 .rest1 = 1.0 - step.beta1,
                                 .rest2 = 1.0 - step.beta2,
                                 .rate = -step.learning_rate / step.bias_correction1});
}

void queue_adamw(const AdamWRange& range, const at::Tensor& norm_squared) {
  const std::vector<at::Tensor> step = range.settings.unbind();  // AdamWNumbers
  const at::Tensor &learning_rate = step[0], &beta1 = step[1], &beta2 = step[2], &epsilon = step[3];
  const at::Tensor &weight_decay = step[4], &max_norm = step[5], &correction1 = step[6], &correction2 = step[7];
  const QueuedClip clip(norm_squared, max_norm, range.value.options());
  const auto kept = clip.kept({beta1, beta2, 1.0 - learning_rate * weight_decay, correction2.sqrt(), epsilon});
  const auto added = clip.added({1.0 - beta1, 1.0 - beta2, learning_rate / correction1.neg()});
  step_adamw<QueuedClip, at::Tensor>(range, clip,
                                     {.beta1 = kept[0],
                                      .beta2 = kept[1],
                                      .decay = kept[2],
                                      .root_of_correction2 = kept[3],
                                      .epsilon = kept[4],
                                      .rest1 = added[0],
                                      .rest2 = added[1],
                                      .rate = added[2]});
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

template <typename Factor>
struct MuonFactors {
  Factor momentum, decay;  // of what is kept
  Factor rate;             // of what is added
};

template <typename Clip, typename Factor>
void step_muon(const MuonRange& range, const Clip& clip, const MuonFactors<Factor>& factors) {
  for (const MuonMatrices& matrices : range.matrices) {
    const at::Tensor momentum = matrices.part_of(range.momentum), value = matrices.part_of(range.value);
    const at::Tensor update = clip.of(matrices.part_of(range.gradient));
    momentum.mul_(factors.momentum).add_(update);
    add(update, momentum, factors.momentum);
    const Factor rate = factors.rate * matrices.scale;
    add(value.mul_(factors.decay), nearly_orthogonal(update, range.newton_schulz_steps), rate);
  }
  if (range.compute.defined()) range.compute.copy_(range.value);  // float32 to the compute dtype
}

void muon(const MuonRange& range, const at::Tensor& norm_squared) {
  const MuonNumbers& step = *reinterpret_cast<const MuonNumbers*>(elements<double>(range.settings));
  const auto clip = KnownClip::from(norm_squared, step.max_norm);
  if (!clip) return;
  step_muon<KnownClip, double>(
      range, *clip,
      {.momentum = step.momentum, .decay = 1.0 - step.learning_rate * step.weight_decay, .rate = -step.learning_rate});
}

void queue_muon(const MuonRange& range, const at::Tensor& norm_squared) {
  const std::vector<at::Tensor> step = range.settings.unbind();  // MuonNumbers in front
  const at::Tensor &learning_rate = step[0], &momentum = step[1], &weight_decay = step[2], &max_norm = step[3];
  const QueuedClip clip(norm_squared, max_norm, range.value.options());
  const auto kept = clip.kept({momentum, 1.0 - learning_rate * weight_decay});
  const auto added = clip.added({learning_rate.neg()});
  step_muon<QueuedClip, at::Tensor>(range, clip, {.momentum = kept[0], .decay = kept[1], .rate = added[0]});
}

// x ^ (x >> shift) in place. int64 multiplies as uint64 does; the sign that its right shift copies is masked.
// shifted: memory of the same size.
void xor_shifted(const at::Tensor& x, at::Tensor shifted, int shift) {
  at::bitwise_right_shift_out(shifted, x, shift);
  x.bitwise_xor_(shifted.bitwise_and_((std::int64_t{1} << (64 - shift)) - 1));
}

// mix64() of base/random.h in place, up to its last xor_shifted() by 31.
void mix_up_to_last(const at::Tensor& x, const at::Tensor& memory) {
  for (const auto& [shift, factor] : {std::pair(30, 0xbf58476d1ce4e5b9), {27, 0x94d049bb133111eb}}) {
    xor_shifted(x, memory, shift);
    x.mul_(static_cast<std::int64_t>(factor));
  }
}

// The key of the place's stream plus golden_gamma times the number of the first element here: int64 [].
at::Tensor first_number(const DropoutPlace& place, std::int64_t elements_of_row) {
  const at::Tensor key = place.key.select(0, 0) + static_cast<std::int64_t>(place.place * golden_gamma);
  const at::Tensor memory = at::empty_like(key);
  mix_up_to_last(key, memory);
  xor_shifted(key, memory, 31);
  const std::uint64_t of_row = static_cast<std::uint64_t>(elements_of_row) * golden_gamma;
  return key.add_(place.key.select(0, 1), static_cast<std::int64_t>(of_row));
}

}  // namespace

std::int64_t dropout_slice(at::Device device) { return std::int64_t{1} << (device.is_cpu() ? 15 : 21); }

at::Tensor dropped_elements(const at::Tensor& x, const DropoutPlace& place) {
  const std::int64_t slice = std::min(dropout_slice(x.device()), x.numel());
  const auto signed_product = [](std::int64_t i) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(i) * golden_gamma);
  };
  const at::Tensor first = first_number(place, x.numel() / x.size(0));
  const at::Tensor steps = at::arange(1, slice + 1, first.options()).mul_(signed_product(1));
  const at::Tensor memory = at::empty({2, slice}, first.options());
  const at::Tensor dropped = at::empty(x.sizes(), x.options().dtype(at::kBool));
  const std::uint32_t threshold = dropout_threshold(place.probability);
  // Unsigned numbers are compared as signed ones are where the first bit of both is turned round.
  const std::uint64_t bound = (std::uint64_t{threshold} << 32) ^ (std::uint64_t{1} << 63);
  for (std::int64_t begin = 0; begin < x.numel(); begin += slice) {
    const std::int64_t count = std::min(slice, x.numel() - begin);
    at::Tensor numbers = memory[0].narrow(0, 0, count), here = dropped.view(-1).narrow(0, begin, count);
    at::add_out(numbers, steps.narrow(0, 0, count), first + signed_product(begin));
    mix_up_to_last(numbers, memory[1].narrow(0, 0, count));
    // Of the upper half the last of mix64()'s steps changes only the last bit, and that only where the first is set.
    if (threshold > 0x80000000) xor_shifted(numbers, memory[1].narrow(0, 0, count), 31);
    at::lt_out(here, numbers.add_(INT64_MIN), static_cast<std::int64_t>(bound));
  }
  return dropped;
}

at::Tensor composed_dropout(const at::Tensor& x, const DropoutPlace& place) {
  return (x * static_cast<double>(dropout_scale(place.probability))).masked_fill(dropped_elements(x, place), 0.0);
}

bool drops_as_specified(const Backend& backend, at::Device device) {
  const auto numbers = at::TensorOptions().device(device).dtype(at::kLong);
  const at::Tensor key = at::arange(0x9d3c5a71, 0x9d3c5a73, numbers).mul_(0x1b873593cc9e2d51);
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const at::Tensor x = at::arange(-3000, 3003, numbers).view({3, 23, 87}).to(dtype).div_(7.0);
    for (const double probability : {0.2, 0.7}) {
      const DropoutPlace place = {.probability = probability, .key = key, .place = 5};
      if (!backend.dropout(x, place).equal(composed_dropout(x, place))) return false;
    }
  }
  return true;
}

const Backend& composed_backend(bool queues) {
  static const Backend waiting = {
      .rows_are_independent = false,
      .muon_works_in_its_memory = false,
      .activation_dtype = [](at::ScalarType weights) { return weights; },
      .sum_of_squares = sum_of_squares,
      .adamw = adamw,
      .muon = muon,
  };
  static const Backend queueing = [] {
    Backend backend = waiting;
    backend.queues = true;
    backend.adamw = queue_adamw;
    backend.muon = queue_muon;
    return backend;
  }();
  return queues ? queueing : waiting;
}

}  // namespace inkling
