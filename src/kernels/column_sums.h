// The second step of sums: blocks have left partial sums, which are added in order.
#pragma once

#include <cstdint>

#include "kernels/cuda_kernels.h"
#include "kernels/reductions.h"

namespace inkling::cuda {

// sums[c] += parts[0][c] + parts[1][c] + … of parts [count, C]; and more_sums, unless it is null, likewise from the
// `count` parts that follow.
void add_parts(const float* parts, std::int64_t count, float* sums, float* more_sums, std::int64_t channels,
               Stream stream);

// The sum of parts[0][i], parts[1][i], … of parts [count, n], in a block of block_size threads that all call: each warp
// sums an eighth of the parts for the i of its lanes, then the eighths are added in order. The last warp gets the sums.
__device__ inline float sum_of_parts(const float* parts, int count, std::int64_t n, std::int64_t i) {
  const int warp = static_cast<int>(threadIdx.x) / warp_size;
  const int share = (count + warps_per_block - 1) / warps_per_block;
  const int end = i < n ? min(count, (warp + 1) * share) : 0;
  Pack<1> sums[1] = {{{0.0f}}};
#pragma unroll 8
  for (int part = warp * share; part < end; ++part) sums[0].at[0] += parts[part * n + i];
  __shared__ float shared[warp_size];
  sum_over_warps(sums, shared, warp, warps_per_block);
  return sums[0].at[0];
}
__device__ inline bool has_sum_of_parts() { return threadIdx.x / warp_size == warps_per_block - 1; }

}  // namespace inkling::cuda
