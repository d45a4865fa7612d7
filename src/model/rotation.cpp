#include "model/rotation.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/pow.h>

#include <numbers>

#include "base/error.h"

namespace inkling {

at::Tensor turns_per_position(const GptShape& shape, const at::Tensor& like) {
  const auto options = like.options().dtype(shape.is_endless() ? at::kDouble : at::kFloat);
  const std::int64_t head_size = shape.attention().head_size;
  at::Tensor plain = at::pow(shape.rope_theta, at::arange(0, head_size, 2, options).div_(head_size)).reciprocal();
  const RopeScaling& scaling = shape.rope_scaling;
  switch (scaling.kind) {
    case ScalingKind::none:
      return plain;
    case ScalingKind::linear:
      return plain / scaling.factor;
    case ScalingKind::llama3: {
      const at::Tensor turns = plain * (static_cast<double>(scaling.original) / (2 * std::numbers::pi));
      const at::Tensor kept = ((turns - scaling.low) / (scaling.high - scaling.low)).clamp(0, 1);
      return (1 - kept) * plain / scaling.factor + kept * plain;
    }
  }
  throw Error::internal("an unknown scaling");
}

Rotation rotation_of(const GptShape& shape, const at::Tensor& positions) {
  if (!has_rotation(shape.position)) return {};
  const at::Tensor turns = turns_per_position(shape, positions);
  const at::Tensor angles = positions.to(turns.scalar_type()).unsqueeze(1) * turns;
  return {angles.cos().to(at::kFloat), angles.sin().to(at::kFloat)};
}

}  // namespace inkling
