// libinkling_cuda.so without a GPU: its own functions on tensors over its kernels' own sources, which
// tests/kernels/cuda/emulation runs, with matrix products and their epilogues by LibTorch on the CPU, and recordings as
// functions to be called again.
#pragma once

#include "backend/choose.h"

namespace inkling::oracle {

// with_epilogues: whether products have epilogues with GELU and with column sums, as cublasLt may or may not. Holds for
// all emulated backends until the next call.
const Backend& emulated_backend(bool with_epilogues = true);

// The CPU's, but it declines every part that it may decline.
const Backend& declining_backend();

// While it lives, choose_backend() means another one, by default the emulated GPU's, on tensors of the CPU.
class OtherBackend {
 public:
  explicit OtherBackend(const Backend& backend = emulated_backend()) { emulate_cuda_library(&backend); }
  ~OtherBackend() { emulate_cuda_library(nullptr); }
  OtherBackend(const OtherBackend&) = delete;
  OtherBackend& operator=(const OtherBackend&) = delete;
};

}  // namespace inkling::oracle
