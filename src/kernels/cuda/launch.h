// What every kernel file shares: warp sums, the grid for n elements, launch errors.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <string>

#include "base/error.h"

namespace inkling::cuda {

constexpr int warp_size = 32;
constexpr int block_size = 256;

// The sum over a warp's lanes, the same order every time; every lane gets it.
__device__ inline float warp_sum(float value) {
  for (int offset = warp_size / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
  return value;
}

__device__ inline float warp_max(float value) {
  for (int offset = warp_size / 2; offset > 0; offset /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, offset));
  }
  return value;
}

inline unsigned blocks_for(std::int64_t n, std::int64_t per_block) {
  return static_cast<unsigned>((n + per_block - 1) / per_block);
}

inline void check_launch(const char* kernel) {
  const cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) return;
  throw Error(ErrorKind::environment,
              std::string("the GPU refused to run ") + kernel + ": " + cudaGetErrorString(error));
}

}  // namespace inkling::cuda
