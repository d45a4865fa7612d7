// The one place where a run's backend is chosen.
#pragma once

#include "backend/backend.h"
#include "runtime/device.h"

namespace inkling {

// Returns the backend that computes what `runtime` says. The fused kernels for a GPU are in libinkling_cuda.so, which
// the first call loads, so that programs on the CPU start without CUDA. Error environment if it cannot be loaded.
const Backend& choose_backend(const Runtime& runtime);

// Returns the backend of the reference model, for any device: it has the update, in LibTorch's own operations. The
// functions for the model are null, because the reference model brings its own operations. queues: whether the device
// queues its work, so that the update must not ask the host for numbers, which would wait for it.
const Backend& composed_backend(bool queues = false);

// For tests: `backend` takes the place of that library and works on tensors on the CPU, and the reference model updates
// them as it does where work is queued; null ends that.
void emulate_cuda_library(const Backend* backend);

}  // namespace inkling
