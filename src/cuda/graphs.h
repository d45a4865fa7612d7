// The stream that work is queued on, and recording it.
#pragma once

#include <functional>

#include "kernels/cuda_kernels.h"

namespace inkling::cuda {

// The current stream of the current device.
Stream current_stream();

// As Backend::record.
std::function<void()> record(int family, const std::function<void()>& work);

}  // namespace inkling::cuda
