// That the emulation finds what it is for: threads that do not meet where they should.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace {

template <typename... Arguments>
std::string failure_of(dim3 grid, dim3 block, void (*kernel)(Arguments...), Arguments... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  try {
    EXPECT_EQ(cudaLaunchKernelEx(&config, kernel, arguments...), cudaSuccess);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

__global__ void reverse_kernel(int* values, bool with_barrier) {
  __shared__ int shared[256];
  shared[threadIdx.x] = values[blockIdx.x * blockDim.x + threadIdx.x];
  if (with_barrier) __syncthreads();
  values[blockIdx.x * blockDim.x + threadIdx.x] = shared[blockDim.x - 1 - threadIdx.x];
}

TEST(Emulation, ThreadsOfABlockShareMemoryAcrossABarrier) {
  for (const bool with_barrier : {true, false}) {
    std::vector<int> values(512), wanted(512);
    for (int i = 0; i < 512; ++i)
      values[static_cast<std::size_t>(i)] = i, wanted[static_cast<std::size_t>(i ^ 255)] = i;
    EXPECT_EQ(failure_of(2, 256, reverse_kernel, values.data(), with_barrier), "");
    EXPECT_EQ(values == wanted, with_barrier) << "a missing barrier shows";
  }
}

__global__ void leave_early_kernel(int who) {
  if (static_cast<int>(threadIdx.x) == who) return;
  __syncthreads();
}

TEST(Emulation, ABarrierThatOneThreadMissesFails) {
  for (const int who : {0, 31, 63}) {
    const std::string failure = failure_of(1, 64, leave_early_kernel, who);
    EXPECT_NE(failure.find("not every thread reaches line"), std::string::npos) << failure;
  }
  EXPECT_EQ(failure_of(1, 64, leave_early_kernel, 64), "") << "and the next launch is none the worse for it";
}

__global__ void two_barriers_kernel() {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

TEST(Emulation, ThreadsWaitingAtDifferentBarriersFail) {
  const std::string failure = failure_of(1, 64, two_barriers_kernel);
  EXPECT_NE(failure.find("threads wait for each other at lines"), std::string::npos) << failure;
}

__global__ void lonely_exchange_kernel(int* sums, int who) {
  if (static_cast<int>(threadIdx.x) == who) return;
  sums[threadIdx.x] = __shfl_xor_sync(0xffffffffu, static_cast<int>(threadIdx.x), 1);
}

TEST(Emulation, AWarpExchangeWithoutOneLaneFails) {
  std::vector<int> values(32);
  EXPECT_NE(failure_of(1, 32, lonely_exchange_kernel, values.data(), 5), "");
  EXPECT_EQ(failure_of(1, 32, lonely_exchange_kernel, values.data(), 32), "");
  for (int i = 0; i < 32; ++i) EXPECT_EQ(values[static_cast<std::size_t>(i)], i ^ 1);
}

__global__ void nothing_kernel() {}

TEST(Emulation, GridsThatNoGpuTakesAreRefused) {
  cudaLaunchConfig_t config = {};
  config.blockDim = 32;
  for (const dim3 grid : {dim3(0), dim3(1, 65536), dim3(1, 1, 65536)}) {
    config.gridDim = grid;
    EXPECT_NE(cudaLaunchKernelEx(&config, nothing_kernel), cudaSuccess);
  }
  config.gridDim = 1;
  config.blockDim = 2048;
  EXPECT_NE(cudaLaunchKernelEx(&config, nothing_kernel), cudaSuccess);
}

}  // namespace
