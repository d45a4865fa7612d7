// Sums over rows in two steps without atomics: parts of the rows first, then the parts in order.
#pragma once

#include <cstdint>

#include "kernels/cuda_kernels.h"

namespace inkling::cuda {

constexpr int column_parts = 64;

// Adds parts [column_parts, channels] to sums [channels], first part first.
void add_parts(const float* parts, float* sums, std::int64_t channels, Stream stream);

}  // namespace inkling::cuda
