// libinkling_cuda.so without a GPU: its own functions on tensors over its kernels' own sources, which
// tests/kernels/cuda/emulation runs, with matrix products and their epilogues by LibTorch on the CPU, and recordings as
// functions to be called again.
#pragma once

#include "backend/choose.h"

namespace inkling::oracle {

// with_epilogues: whether products have epilogues with GELU and with column sums, as cublasLt may or may not. Holds for
// all emulated backends until the next call.
const Backend& emulated_backend(bool with_epilogues = true);

// While it lives, choose_backend() means the GPU's, on tensors of the CPU.
class EmulatedGpu {
 public:
  explicit EmulatedGpu(bool with_epilogues = true) { emulate_cuda_library(&emulated_backend(with_epilogues)); }
  explicit EmulatedGpu(const Backend& backend) { emulate_cuda_library(&backend); }
  ~EmulatedGpu() { emulate_cuda_library(nullptr); }
  EmulatedGpu(const EmulatedGpu&) = delete;
  EmulatedGpu& operator=(const EmulatedGpu&) = delete;
};

}  // namespace inkling::oracle
