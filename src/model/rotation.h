// Rotary positions (Su et al. 2021): the angles by which queries and keys turn.
#pragma once

#include <ATen/core/Tensor.h>

#include "backend/backend.h"
#include "config/model_shape.h"

namespace inkling {

// Returns by which angle each pair of channels turns from one position to the next, [D/2]: theta^(-2i/D), scaled as the
// shape says. In float32, in which other programs keep it, an angle is off by some 0.06 at position 1,000,000; so it is
// float64 where texts go on without end. like: any tensor on the device.
at::Tensor turns_per_position(const GptShape& shape, const at::Tensor& like);

// Returns the rotation at these positions, int64 [n]; undefined for a model whose queries and keys do not turn.
Rotation rotation_of(const GptShape& shape, const at::Tensor& positions);

}  // namespace inkling
