// Finds the kernels that compute with a tensor.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include "backend/elements.h"
#include "cuda/graphs.h"
#include "kernels/cuda_kernels.h"

namespace inkling::cuda {

// Calls body(kernels, element) with the kernels for the dtype of `like`, and a value of their Element.
template <typename Body>
void with_kernels(const at::Tensor& like, const Body& body) {
  if (like.scalar_type() == at::kFloat) {
    body(cuda_kernels<float>(), float{});
  } else {
    body(cuda_kernels<BFloat16>(), BFloat16{});
  }
}

// Returns `count` floats for a kernel to work with, on the device of x.
inline at::Tensor scratch(const at::Tensor& x, std::int64_t count) {
  return at::empty({count}, x.options().dtype(at::kFloat).requires_grad(false));
}

}  // namespace inkling::cuda
