// How kernels are launched, and sums and maxima over threads, in the same order every time.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "kernels/cuda_elements.h"
#include "kernels/cuda_kernels.h"

namespace inkling::cuda {

// How every kernel is launched, and the choices made on the host: the grid for n things, 16 bytes at a time or one
// element. There is no <<<…>>>, so that the tests can compile the same sources with g++ and run them on a CPU.

constexpr int warp_size = 32;
constexpr int block_size = 256;
constexpr int warps_per_block = block_size / warp_size;

// Queues kernel(arguments...) on the stream. GpuError, with the name, if the GPU refuses.
template <typename... Parameters, typename... Arguments>
void launch(const char* name, void (*kernel)(Parameters...), dim3 grid, dim3 block, Stream stream,
            Arguments... arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;  // nothing to do, which CUDA calls an invalid configuration
  if (grid.y > largest_grid_yz || grid.z > largest_grid_yz) {
    throw Error::environment(std::string(name) + " of so many channels has no CUDA kernel here: set runtime.kernels " +
                             "to reference");
  }
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.stream = static_cast<cudaStream_t>(stream);
  const cudaError_t error = cudaLaunchKernelEx(&config, kernel, arguments...);
  if (error == cudaSuccess) return;
  throw GpuError(std::string("the GPU refused to run ") + name + ": " + cudaGetErrorString(error));
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

__device__ inline int lane_of_thread() { return static_cast<int>(threadIdx.x) % warp_size; }

// Every lane of the warp gets the result, here and below.
template <typename Number>
__device__ inline Number warp_sum(Number value) {
#pragma unroll
  for (int offset = warp_size / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
  return value;
}

__device__ inline float warp_max(float value) {
#pragma unroll
  for (int offset = warp_size / 2; offset > 0; offset /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, offset));
  }
  return value;
}

// The sums over the `threads` threads that share a row: a warp, or a block of as many threads (then all must call).
template <int threads, int count>
__device__ inline Pack<count> group_sums(Pack<count> values) {
#pragma unroll
  for (int i = 0; i < count; ++i) values.at[i] = warp_sum(values.at[i]);
  if constexpr (threads > warp_size) {
    constexpr int warps = threads / warp_size;
    __shared__ float parts[warps][count];
    __syncthreads();  // the last call's parts have been read
    if (lane_of_thread() == 0) {
      for (int i = 0; i < count; ++i) parts[threadIdx.x / warp_size][i] = values.at[i];
    }
    __syncthreads();
    values = filled<count>(0.0f);
    for (int warp = 0; warp < warps; ++warp) {
      for (int i = 0; i < count; ++i) values.at[i] += parts[warp][i];
    }
  }
  return values;
}

template <int threads>
__device__ inline float group_sum(float value) {
  return group_sums<threads>(Pack<1>{{value}}).at[0];
}

template <int threads>
__device__ inline float group_max(float value) {
  value = warp_max(value);
  if constexpr (threads > warp_size) {
    constexpr int warps = threads / warp_size;
    __shared__ float parts[warps];
    __syncthreads();  // the last call's parts have been read
    if (lane_of_thread() == 0) parts[threadIdx.x / warp_size] = value;
    __syncthreads();
    for (int warp = 0; warp < warps; ++warp) value = fmaxf(value, parts[warp]);
  }
  return value;
}

// Every lane of a block's warps holds some packs: afterwards those of the last warp are the sums, first warp first.
// shared: packs * width * 32 floats. `warp` of `warps` is the caller's; every thread of the block must call.
template <int width, int packs>
__device__ inline void sum_over_warps(Pack<width> (&values)[packs], float* shared, int warp, int warps) {
  for (int turn = 0; turn < warps; ++turn) {
    if (turn == warp) {
#pragma unroll
      for (int i = 0; i < packs * width; ++i) {
        float& value = values[i / width].at[i % width];
        float& so_far = shared[i * warp_size + lane_of_thread()];
        if (turn > 0) value += so_far;
        so_far = value;
      }
    }
    __syncthreads();
  }
}

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
