// From tensors to the kernels that compute with them.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include "backend/elements.h"
#include "cuda/graphs.h"
#include "kernels/cuda_kernels.h"

namespace inkling::cuda {

// body(kernels, element): the kernels for the dtype of `like`, and a value of their Element.
template <typename Body>
void with_kernels(const at::Tensor& like, const Body& body) {
  if (like.scalar_type() == at::kFloat) {
    body(cuda_kernels<float>(), float{});
  } else {
    body(cuda_kernels<BFloat16>(), BFloat16{});
  }
}

// `count` floats beside x for a kernel to work with.
inline at::Tensor scratch(const at::Tensor& x, std::int64_t count) {
  return at::empty({count}, x.options().dtype(at::kFloat).requires_grad(false));
}

}  // namespace inkling::cuda
