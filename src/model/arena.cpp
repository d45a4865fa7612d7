#include "model/arena.h"

#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "runtime/parallel.h"

namespace inkling {

constexpr std::int64_t alignment = 16;

std::string_view group_name(ParameterGroup group) {
  constexpr std::array<std::string_view, all_parameter_groups.size()> names = {"embedding", "matrix", "head", "vector"};
  return names[static_cast<std::size_t>(group)];
}

std::int64_t ParameterRanges::count() const {
  std::int64_t count = 0;
  for (const ParameterRange& range : ranges) count += range.count();
  return count;
}

void ParameterRanges::add(const ParameterRange& next) {
  if (!ranges.empty() && ranges.back().end == next.begin) {
    ranges.back().end = next.end;
  } else {
    ranges.push_back(next);
  }
}

ParameterRanges ParameterRanges::within(const ParameterRange& of) const {
  ParameterRanges found;
  for (const ParameterRange& range : ranges) {
    const ParameterRange part = {std::max(range.begin, of.begin), std::min(range.end, of.end)};
    if (part.begin < part.end) found.ranges.push_back(part);
  }
  return found;
}

std::int64_t ParameterRanges::place_of(std::int64_t element) const {
  std::int64_t before = 0;
  for (const ParameterRange& range : ranges) {
    if (element < range.end) return before + element - range.begin;
    before += range.count();
  }
  return before;
}

at::Tensor ParameterRanges::part_of(const at::Tensor& kept, const ParameterRange& part) const {
  return kept.narrow(0, place_of(part.begin), part.count());
}

ParameterLayout::ParameterLayout(const std::vector<ParameterSpec>& specs) {
  for (const ParameterGroup group : all_parameter_groups) {
    const std::int64_t begin = size_;
    for (const ParameterSpec& spec : specs) {
      if (spec.group != group) continue;
      const std::int64_t count = c10::multiply_integers(spec.shape);
      parameters_.push_back({spec, size_, count});
      size_ += (count + alignment - 1) / alignment * alignment;
    }
    ranges_[static_cast<std::size_t>(group)] = {begin, size_};
  }
}

ParameterArena::ParameterArena(const std::vector<ParameterSpec>& specs, at::Device device, at::ScalarType compute_dtype,
                               Gradients gradients, const std::optional<ParameterRanges>& owned)
    : ParameterLayout(specs),
      writers_ask_(gradients == Gradients::in_float32),
      fresh_(std::make_unique<bool[]>(parameters().size())) {
  const auto options = at::TensorOptions().device(device).dtype(at::kFloat);
  const bool separate = compute_dtype != at::kFloat, keeps_part = separate && owned;
  values_ = at::zeros({size()}, keeps_part ? options.device(at::kCPU) : options);
  compute_values_ = separate ? at::zeros({size()}, options.dtype(compute_dtype)) : values_;
  if (keeps_part) {
    owned_ = *owned;
    kept_values_ = at::zeros({owned_.count()}, options);
  }
  if (gradients == Gradients::none) return;
  gradients_ = at::zeros({size()}, options);
  const bool collected = separate && gradients == Gradients::as_weights;
  compute_gradients_ = collected ? at::zeros_like(compute_values_) : gradients_;
}

ParameterArena::ParameterArena(const ParameterArena& shared, at::Tensor gradients)
    : ParameterLayout(shared),
      values_(shared.keeps_all() ? shared.values_ : at::Tensor()),
      gradients_(std::move(gradients)),
      owned_(shared.owned_),
      kept_values_(shared.kept_values_),
      compute_values_(shared.compute_values_),
      compute_gradients_(shared.compute_gradients_.is_same(shared.gradients_) ? gradients_
                                                                              : at::zeros_like(compute_values_)),
      writers_ask_(shared.writers_ask_),
      fresh_(std::make_unique<bool[]>(parameters().size())) {}

std::unique_ptr<ParameterArena> ParameterArena::with_own_gradients() const {
  return std::unique_ptr<ParameterArena>(new ParameterArena(*this, at::zeros_like(gradients_)));
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

std::int64_t ParameterLayout::end_of(std::size_t parameter) const {
  return parameter + 1 < parameters_.size() ? parameters_[parameter + 1].offset : size_;
}

std::vector<ParameterRange> ParameterLayout::blocks() const {
  std::vector<ParameterRange> all;
  const auto cut = [&](std::int64_t begin, std::int64_t end) {
    for (; begin < end; begin += elements_of_block) all.push_back({begin, std::min(end, begin + elements_of_block)});
  };
  for (const ParameterGroup group : all_parameter_groups) {
    const auto [begin, end] = range(group);
    if (group != ParameterGroup::matrix) {
      cut(begin, end);
      continue;
    }
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (parameters_[i].spec.group != group) continue;
      cut(parameters_[i].offset, end_of(i));
    }
  }
  return all;
}

Weight ParameterArena::weight(std::string_view name) const {
  const Parameter& found = parameter(name);
  if (vectors_.defined() && found.spec.group == ParameterGroup::vector) {
    const std::int64_t offset = found.offset - range(ParameterGroup::vector).begin;
    return {.value = vectors_.narrow(0, offset, found.count).view(found.spec.shape)};
  }
  // detach: a view of its own that autograd sees as a leaf.
  Weight weight{.value = found.part_of(compute_values_).detach()};
  if (compute_gradients_.defined()) {
    weight.gradient = found.part_of(compute_gradients_);
    weight.is_fresh = &fresh_[static_cast<std::size_t>(&found - parameters().data())];
    weight.value.set_requires_grad(true);
    if (weight.gradient.scalar_type() == weight.value.scalar_type()) weight.value.mutable_grad() = weight.gradient;
  }
  return weight;
}

at::TensorOptions ParameterArena::vector_options() const {
  return (vectors_.defined() ? vectors_ : compute_values_).options();
}

at::Tensor ParameterArena::master(std::string_view name) const { return parameter(name).part_of(values_); }

at::Tensor ParameterArena::master(const ParameterRange& part) const {
  return keeps_all() ? values_.slice(0, part.begin, part.end) : owned_.part_of(kept_values_, part);
}

at::Tensor ParameterArena::master_within(const ParameterRange& part) const {
  if (keeps_all()) return master(part);
  const at::Tensor whole = at::zeros({part.count()}, kept_values_.options());
  for (const ParameterRange& kept : owned_.within(part).ranges) {
    whole.narrow(0, kept.begin - part.begin, kept.count()).copy_(master(kept));
  }
  return whole;
}

void ParameterArena::begin_gradients() {
  if (!writers_ask_) {
    gradients_.zero_();
    return;
  }
  const auto [begin, end] = range(ParameterGroup::vector);
  gradients_.slice(0, begin, end).zero_();  // there are many small ones, and kernels can only add to them
  for (std::size_t i = 0; i < parameters().size(); ++i) {
    fresh_[i] = parameters()[i].spec.group != ParameterGroup::vector;
  }
}

void ParameterArena::collect_gradients() {
  if (compute_gradients_.is_same(gradients_)) return;
  gradients_.add_(compute_gradients_);  // bfloat16 to float32
  compute_gradients_.zero_();
}

void ParameterArena::zero_unwritten_gradients() {
  for (std::size_t i = 0; i < parameters().size(); ++i) {
    if (fresh_[i]) parameters()[i].part_of(gradients_).zero_();
  }
}

void ParameterArena::refresh_compute() {
  if (!has_copies()) return;
  if (values_.defined()) compute_values_.copy_(values_);  // float32 to the compute dtype
  for (const ParameterRange& range : owned_.ranges) {
    if (values_.defined()) {
      master(range).copy_(values_.slice(0, range.begin, range.end));
    } else {
      compute_values_.slice(0, range.begin, range.end).copy_(master(range));
    }
  }
}

void ParameterArena::give_up_values() {
  if (!keeps_all()) values_.reset();
}

void ParameterArena::release_master(at::ScalarType dtype) {
  const auto [begin, end] = range(ParameterGroup::vector);
  vectors_ = values_.slice(0, begin, end).to(dtype, false, true);
  values_.reset();
}

}  // namespace inkling
