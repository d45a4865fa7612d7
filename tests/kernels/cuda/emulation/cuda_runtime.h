// Stands in for CUDA's header of this name, so that g++ compiles our kernels as C++ and the tests run them on a CPU.
// Only what src/kernels/cuda/ uses. A block's threads are fibers that take turns at barriers and warp exchanges; blocks
// run one after another, in a mixed order. What goes wrong between threads is an exception: a barrier that not every
// thread reaches, or threads waiting at different ones.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <tuple>
#include <type_traits>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __shared__ static  // blocks run one after another
#define __launch_bounds__(...)

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

namespace emulation {

// Runs body once for every thread of every block. Throws std::runtime_error if threads do not meet as they should.
void run(dim3 grid, dim3 block, const std::function<void()>& body);

void barrier(int line);
// What lane `from` of this warp handed in; every lane of the warp must take part.
std::uint64_t exchange(unsigned mask, std::uint64_t value, unsigned from, int line);
unsigned lane();

template <typename T>
T exchanged(unsigned mask, T value, unsigned from, int line) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = exchange(mask, bits, from, line);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

}  // namespace emulation

// `line` is where the call stands: threads that meet must meet at the same one.
inline void __syncthreads(int line = __builtin_LINE()) { emulation::barrier(line); }
inline void __syncwarp(unsigned mask = 0xffffffffu, int line = __builtin_LINE()) {
  emulation::exchange(mask, 0, 0, line);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int with, int = 32, int line = __builtin_LINE()) {
  return emulation::exchanged(mask, value, emulation::lane() ^ static_cast<unsigned>(with), line);
}

template <typename T>
T __shfl_sync(unsigned mask, T value, int from, int = 32, int line = __builtin_LINE()) {
  return emulation::exchanged(mask, value, static_cast<unsigned>(from), line);
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned by, int = 32, int line = __builtin_LINE()) {
  const unsigned lane = emulation::lane();
  return emulation::exchanged(mask, value, lane >= by ? lane - by : lane, line);
}
inline std::uint64_t __umul64hi(std::uint64_t a, std::uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<Wide>(a) * b) >> 64);
}

// Blocks run one after another, and a thread runs until it waits for others.
inline void __threadfence() {}
inline unsigned atomicInc(unsigned* value, unsigned largest) {
  const unsigned before = *value;
  *value = before >= largest ? 0 : before + 1;
  return before;
}

inline float __expf(float x) { return std::exp(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline float __uint_as_float(unsigned bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}
inline unsigned __float_as_uint(float value) {
  unsigned bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}
inline std::uint64_t __float2ull_rn(float value) { return static_cast<std::uint64_t>(std::llrint(value)); }
using std::max;
using std::min;

using cudaStream_t = void*;
enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorMemoryAllocation = 2 };
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2 };
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  std::size_t dynamicSmemBytes;
  cudaStream_t stream;
  void* attrs;
  unsigned numAttrs;
};

inline const char* cudaGetErrorString(cudaError_t error) { return error == cudaSuccess ? "no error" : "an error"; }
inline cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
inline cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  *data = std::malloc(bytes);
  return *data == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
inline cudaError_t cudaFree(void* data) {
  std::free(data);
  return cudaSuccess;
}
inline cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  if (bytes > 0) std::memcpy(to, from, bytes);
  return cudaSuccess;
}

namespace emulation {

// Where launches go instead of running at once, and what the kernel then finds an argument's addresses by: how
// tests/software_gpu puts them on a stream. `kernel` is its address.
using Launcher = cudaError_t (*)(const cudaLaunchConfig_t& config, const void* kernel, std::function<void()> body);
inline Launcher launcher = nullptr;
inline void* (*reach)(void* address) = nullptr;

// The argument with the addresses in it reached: a pointer, or a struct, of which each word may be one.
template <typename Argument>
Argument reached(Argument argument) {
  if (reach == nullptr || std::is_arithmetic_v<Argument> || std::is_enum_v<Argument>) return argument;
  for (std::size_t at = 0; at + sizeof(void*) <= sizeof argument; at += alignof(void*)) {
    void* word = nullptr;
    std::memcpy(&word, reinterpret_cast<const char*>(&argument) + at, sizeof word);
    word = reach(word);
    std::memcpy(reinterpret_cast<char*>(&argument) + at, &word, sizeof word);
  }
  return argument;
}

}  // namespace emulation

template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  const dim3 grid = config->gridDim, block = config->blockDim;
  const unsigned threads = block.x * block.y * block.z;
  // The limits of every processor that we compile for.
  if (grid.x == 0 || grid.x > 0x7fffffffu || grid.y == 0 || grid.y > 65535 || grid.z == 0 || grid.z > 65535 ||
      threads == 0 || threads > 1024) {
    return cudaErrorInvalidValue;
  }
  const auto body = [grid, block, kernel, given = std::tuple<std::decay_t<Parameters>...>(arguments...)] {
    std::apply(
        [&](const auto&... each) {
          const std::tuple<std::decay_t<Parameters>...> own(emulation::reached(each)...);
          emulation::run(grid, block, [&] { std::apply(kernel, own); });
        },
        given);
  };
  if (emulation::launcher != nullptr) {
    return emulation::launcher(*config, reinterpret_cast<const void*>(kernel), body);
  }
  body();
  return cudaSuccess;
}
