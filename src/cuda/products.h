// Matrix products through cublasLt.
#pragma once

#include "ops/cuda_library.h"

namespace inkling::cuda {

// As CudaLibrary::multiply. Plans are chosen once for each shape and alignment, and kept. Reductions in place (which
// add in whatever order threads arrive) are left out, so the same input gives the same bits.
bool multiply(const at::Tensor& a, const at::Tensor& b, const at::Tensor& out, const Epilogue& epilogue);

}  // namespace inkling::cuda
