// Activations that are not kept but computed again in the backward pass (Chen et al. 2016, "Training Deep Nets with
// Sublinear Memory Cost").
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <utility>

#include "ops/context.h"

namespace inkling {

using TwoTensors = std::pair<at::Tensor, at::Tensor>;
using TwoToTwo = std::function<TwoTensors(const TwoTensors& in, Context& context)>;

// body(in, context), of which only `in` is kept for the backward pass. body must give the same again for the same input
// and context, and is called a second time when what it captured by reference may be gone.
TwoTensors recomputed(const TwoTensors& in, const TwoToTwo& body, Context& context);

}  // namespace inkling
