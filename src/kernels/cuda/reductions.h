// Sums and maxima over threads, in the same order every time.
#pragma once

#include "kernels/cuda/elements.h"
#include "kernels/cuda/launch.h"

namespace inkling::cuda {

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

}  // namespace inkling::cuda
