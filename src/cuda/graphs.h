// The stream that work is queued on, and recordings of such work.
#pragma once

#include <functional>

#include "kernels/cuda_kernels.h"

namespace inkling::cuda {

Stream current_stream();

// As Backend::record.
std::function<void()> record(int family, const std::function<void()>& work);

}  // namespace inkling::cuda
