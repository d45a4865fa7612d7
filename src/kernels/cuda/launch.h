// How every kernel is launched, and the choices made on the host: the grid for n things, 16 bytes at a time or one
// element. There is no <<<…>>>, so that the tests can compile the same sources with g++ and run them on a CPU.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "kernels/cuda_kernels.h"

namespace inkling::cuda {

constexpr int warp_size = 32;
constexpr int block_size = 256;
constexpr int warps_per_block = block_size / warp_size;

// Queues kernel(arguments...) on the stream. Error environment, with the name, if the GPU refuses.
template <typename... Parameters, typename... Arguments>
void launch(const char* name, void (*kernel)(Parameters...), dim3 grid, dim3 block, Stream stream,
            Arguments... arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;  // nothing to do, which CUDA calls an invalid configuration
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.stream = static_cast<cudaStream_t>(stream);
  const cudaError_t error = cudaLaunchKernelEx(&config, kernel, arguments...);
  if (error == cudaSuccess) return;
  throw Error(ErrorKind::environment, std::string("the GPU refused to run ") + name + ": " + cudaGetErrorString(error));
}

constexpr std::int64_t divided_up(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit; }

inline unsigned blocks_for(std::int64_t n, std::int64_t per_block) {
  return static_cast<unsigned>(divided_up(n, per_block));
}

template <typename... Pointers>
bool aligned(Pointers... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0) && ...);
}

// Calls function with how many elements a thread takes at once: 16 bytes of them if every row of `row_length` elements
// begins at a multiple of 16 bytes, else one. The arrays are `pointers_aligned`; null counts as aligned.
template <typename Element, typename Function>
void with_width(std::int64_t row_length, bool pointers_aligned, Function&& function) {
  constexpr int widest = 16 / static_cast<int>(sizeof(Element));
  if (pointers_aligned && row_length % widest == 0) {
    function(std::integral_constant<int, widest>{});
  } else {
    function(std::integral_constant<int, 1>{});
  }
}

}  // namespace inkling::cuda
