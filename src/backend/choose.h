// The one place where a run's backend is chosen.
#pragma once

#include "backend/backend.h"
#include "runtime/device.h"

namespace inkling {

// Returns the backend that computes what `runtime` says. The fused kernels for a GPU are in libinkling_cuda.so, which
// the first call loads, so that programs on the CPU start without CUDA. Error environment if it cannot be loaded.
const Backend& choose_backend(const Runtime& runtime);

// The ranks of a run that computes on GPUs meet there, by NCCL, which that library brings; those of one on the CPU need
// not. Error environment if it cannot be loaded.
void meet_on_gpus(const Runtime& runtime);

// Returns the backend of the reference model, for any device: it has the update, in LibTorch's own operations. The
// functions for the model are null, because the reference model brings its own operations; but choose_backend() gives
// it the fused kernel of dropout on a GPU where that draws the same numbers. queues: whether the device queues its
// work, so that the update must not ask the host for numbers, which would wait for it.
const Backend& composed_backend(bool queues = false);

// Dropout as the specification says (backend.h, docs/formats.md) in LibTorch's own operations, under its autograd.
// composed_dropout() is Backend::dropout; dropped_elements() says which elements become 0: bool, of the shape of x. The
// numbers are made in slices of so many elements, so that they stay in the processor's caches and take little memory.
at::Tensor composed_dropout(const at::Tensor& x, const DropoutPlace& place);
at::Tensor dropped_elements(const at::Tensor& x, const DropoutPlace& place);
std::int64_t dropout_slice(at::Device device);

// Whether backend.dropout() gives the bits of composed_dropout() on that device, for a few thousand elements. Waits for
// it.
bool drops_as_specified(const Backend& backend, at::Device device);

// For tests: `backend` takes the place of that library and works on tensors on the CPU, and the reference model updates
// them as it does where work is queued; null ends that.
void emulate_cuda_library(const Backend* backend);

}  // namespace inkling
