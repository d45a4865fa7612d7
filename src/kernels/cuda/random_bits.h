// The random numbers of base/random.h, for the device.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "base/random.h"

namespace inkling::cuda {

// mix64
__device__ inline std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// random_bits
__device__ inline std::uint64_t random_bits_at(std::uint64_t key, std::uint64_t index) {
  return mixed(key + (index + 1) * golden_gamma);
}

}  // namespace inkling::cuda
