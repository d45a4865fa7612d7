// The second step of sums over rows: blocks have left partial sums, which are added in order.
#pragma once

#include <cstdint>

#include "kernels/cuda_kernels.h"

namespace inkling::cuda {

// sums[c] += parts[0][c] + parts[1][c] + … of parts [count, C]; and more_sums, unless it is null, likewise from the
// `count` parts that follow.
void add_parts(const float* parts, std::int64_t count, float* sums, float* more_sums, std::int64_t channels,
               Stream stream);

}  // namespace inkling::cuda
