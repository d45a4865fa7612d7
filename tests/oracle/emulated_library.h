// libinkling_cuda.so without a GPU: its kernels' own sources run by tests/kernels/cuda/emulation, matrix products and
// their epilogues by LibTorch on the CPU, recordings as functions to be called again.
#pragma once

#include "ops/cuda_library.h"

namespace inkling::oracle {

// with_epilogues: whether products have epilogues with GELU and with column sums, as cublasLt may or may not.
const CudaLibrary& emulated_library(bool with_epilogues);

// While it lives, the fused operations go the way they go on a GPU, on tensors of the CPU.
class EmulatedGpu {
 public:
  explicit EmulatedGpu(bool with_epilogues = true) { emulate_cuda_library(&emulated_library(with_epilogues)); }
  ~EmulatedGpu() { emulate_cuda_library(nullptr); }
  EmulatedGpu(const EmulatedGpu&) = delete;
  EmulatedGpu& operator=(const EmulatedGpu&) = delete;
};

}  // namespace inkling::oracle
