// Activations that are not kept but computed again in the backward pass (Chen et al. 2016, "Training Deep Nets with
// Sublinear Memory Cost").
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "model/operations.h"

namespace inkling {

using Tensors = std::vector<at::Tensor>;
using TensorFunction = std::function<Tensors(const Tensors& in, Pass& pass)>;

// Returns block(in, pass). With training.recompute: block it keeps only `in` for the backward pass, which calls `block`
// again. `block` must give the same for the same input and pass, and must not capture by reference what may be gone by
// then.
Tensors run_block(const Tensors& in, const TensorFunction& block, Pass& pass);

}  // namespace inkling
