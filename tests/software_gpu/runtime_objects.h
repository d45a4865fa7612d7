// What the tests of CUDA's runtime make: streams, events, arrays of numbers on the device and in pinned memory.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

namespace inkling {

inline std::string why_no_gpu() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  cudaGetLastError();
  return error != cudaSuccess ? cudaGetErrorString(error) : count == 0 ? "CUDA counts no GPU" : "";
}

constexpr int size = 1000;

struct DeviceInts {
  explicit DeviceInts(int count = size) { EXPECT_EQ(cudaMalloc(&data, count * sizeof(int)), cudaSuccess); }
  ~DeviceInts() { cudaFree(data); }
  DeviceInts(const DeviceInts&) = delete;
  DeviceInts& operator=(const DeviceInts&) = delete;
  static constexpr std::size_t bytes = size * sizeof(int);
  void* data = nullptr;

  void write(int value) const {
    const std::vector<int> values(size, value);
    EXPECT_EQ(cudaMemcpy(data, values.data(), bytes, cudaMemcpyHostToDevice), cudaSuccess);
  }
  std::vector<int> read() const {
    std::vector<int> values(size);
    EXPECT_EQ(cudaMemcpy(values.data(), data, bytes, cudaMemcpyDeviceToHost), cudaSuccess);
    return values;
  }
};

struct PinnedInts {
  PinnedInts() {
    EXPECT_EQ(cudaHostAlloc(&data, DeviceInts::bytes, cudaHostAllocDefault), cudaSuccess);
    for (int i = 0; i < size; ++i) ints()[i] = i;
  }
  ~PinnedInts() { cudaFreeHost(data); }
  PinnedInts(const PinnedInts&) = delete;
  PinnedInts& operator=(const PinnedInts&) = delete;
  int* ints() const { return static_cast<int*>(data); }
  void* data = nullptr;
};

struct Stream {
  explicit Stream(unsigned flags = cudaStreamNonBlocking) {
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream, flags), cudaSuccess);
  }
  ~Stream() { cudaStreamDestroy(stream); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator cudaStream_t() const { return stream; }
  cudaStream_t stream = nullptr;
};

struct Event {
  Event() { EXPECT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess); }
  ~Event() { cudaEventDestroy(event); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  operator cudaEvent_t() const { return event; }
  cudaEvent_t event = nullptr;
};

}  // namespace inkling
