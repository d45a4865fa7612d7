// The one place where a run's backend is chosen.
#pragma once

#include <filesystem>

#include "backend/backend.h"
#include "runtime/device.h"

namespace inkling {

// The backend that computes what `runtime` says. On a GPU with the fused kernels it is in libinkling_cuda.so, which is
// loaded by the first call, so that programs on the CPU start without CUDA: Error environment if it cannot be.
const Backend& choose_backend(const Runtime& runtime);

// The reference model's, on any device, in LibTorch's own operations: the update. Its model operations are absent,
// because the reference model brings its own.
const Backend& composed_backend();

// libinkling_cuda.so beside the program that runs, whether it is there or not.
std::filesystem::path cuda_library_path();

// For tests: `backend` takes the place of that library and works on tensors of the CPU; null ends that.
void emulate_cuda_library(const Backend* backend);

}  // namespace inkling
