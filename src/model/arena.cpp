#include "model/arena.h"

#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/accumulate.h>

#include "base/error.h"
#include "base/strings.h"

namespace inkling {

constexpr std::int64_t alignment = 16;

ParameterLayout::ParameterLayout(const std::vector<ParameterSpec>& specs) {
  for (const bool decay : {true, false}) {
    for (const ParameterSpec& spec : specs) {
      if (spec.decay != decay) continue;
      const std::int64_t count = c10::multiply_integers(spec.shape);
      parameters_.push_back({spec, size_, count});
      size_ += (count + alignment - 1) / alignment * alignment;
    }
    if (decay) decay_end_ = size_;
  }
}

ParameterArena::ParameterArena(const std::vector<ParameterSpec>& specs, at::Device device, at::ScalarType compute_dtype,
                               Gradients gradients)
    : ParameterLayout(specs) {
  const auto options = at::TensorOptions().device(device).dtype(at::kFloat);
  values_ = at::zeros({size()}, options);
  const bool separate = compute_dtype != at::kFloat;
  compute_values_ = separate ? values_.to(compute_dtype) : values_;
  if (gradients == Gradients::none) return;
  gradients_ = at::zeros({size()}, options);
  const bool collected = separate && gradients == Gradients::as_weights;
  compute_gradients_ = collected ? at::zeros_like(compute_values_) : gradients_;
}

const Parameter& ParameterLayout::parameter(std::string_view name) const {
  for (const Parameter& parameter : parameters_) {
    if (parameter.spec.name == name) return parameter;
  }
  throw Error::internal(str("the model has no parameter ", quote(name)));
}

std::int64_t ParameterLayout::parameter_count() const {
  std::int64_t count = 0;
  for (const Parameter& parameter : parameters_) count += parameter.count;
  return count;
}

at::Tensor ParameterArena::view(const at::Tensor& flat, const Parameter& parameter) const {
  return flat.narrow(0, parameter.offset, parameter.count).view(parameter.spec.shape);
}

Weight ParameterArena::weight(std::string_view name) const {
  const Parameter& found = parameter(name);
  if (vectors_.defined() && !found.spec.decay) {
    return {vectors_.narrow(0, found.offset - decay_end(), found.count).view(found.spec.shape), {}};
  }
  // detach: a view of its own that autograd sees as a leaf.
  Weight weight{.value = view(compute_values_, found).detach(), .gradient = {}};
  if (compute_gradients_.defined()) {
    weight.gradient = view(compute_gradients_, found);
    weight.value.set_requires_grad(true);
    if (weight.gradient.scalar_type() == weight.value.scalar_type()) weight.value.mutable_grad() = weight.gradient;
  }
  return weight;
}

at::Tensor ParameterArena::master(std::string_view name) const { return view(values_, parameter(name)); }

void ParameterArena::zero_gradients() { gradients_.zero_(); }

void ParameterArena::zero_vector_gradients() { gradients_.slice(0, decay_end()).zero_(); }

void ParameterArena::collect_gradients() {
  if (compute_gradients_.is_same(gradients_)) return;
  gradients_.add_(compute_gradients_);  // bfloat16 to float32
  compute_gradients_.zero_();
}

void ParameterArena::refresh_compute() {
  if (!compute_values_.is_same(values_)) compute_values_.copy_(values_);  // float32 to the compute dtype
}

void ParameterArena::release_master(at::ScalarType dtype) {
  vectors_ = values_.slice(0, decay_end()).to(dtype, false, true);
  values_.reset();
}

}  // namespace inkling
