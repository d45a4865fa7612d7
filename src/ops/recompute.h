// Activations that are not kept but computed again in the backward pass (Chen et al. 2016, "Training Deep Nets with
// Sublinear Memory Cost").
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "ops/operations.h"

namespace inkling {

using Tensors = std::vector<at::Tensor>;
using TensorFunction = std::function<Tensors(const Tensors& in, Pass& pass)>;

// body(in, pass), of which only `in` is kept for the backward pass. body must give the same again for the same input
// and pass, and is called a second time when what it captured by reference may be gone.
Tensors recomputed(const Tensors& in, const TensorFunction& body, Pass& pass);

}  // namespace inkling
