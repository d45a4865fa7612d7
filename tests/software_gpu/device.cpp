// The GPU that programs see: its properties, and the driver's functions that the runtime hands out.
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <utility>

#include "runtime.h"

namespace software_gpu {
namespace {

thread_local int device_of_thread = 0;

constexpr int kibibyte = 1024, cache = 1024 * kibibyte;

// From NVIDIA's data sheets and the table of compute capabilities in CUDA's programming guide.
constexpr Processor processors[] = {
    {75, "Tesla T4", 40, 1024, 16, 64 * kibibyte, 64 * kibibyte, 4 * cache, 1590000, 5001000, 256},
    {80, "NVIDIA A100-SXM4-80GB", 108, 2048, 32, 164 * kibibyte, 163 * kibibyte, 40 * cache, 1410000, 1593000, 5120},
    {90, "NVIDIA H100 80GB HBM3", 132, 2048, 32, 228 * kibibyte, 227 * kibibyte, 50 * cache, 1980000, 2619000, 5120},
    {120, "NVIDIA GeForce RTX 5090", 170, 1536, 24, 100 * kibibyte, 99 * kibibyte, 96 * cache, 2407000, 14001000, 512},
};

bool is_hidden() { return number("HIDE", 0) != 0; }

cudaError_t check_device(int device) {
  if (is_hidden()) return cudaErrorInsufficientDriver;
  return device >= 0 && device < device_count() ? cudaSuccess : cudaErrorInvalidDevice;
}

// What CUDA keeps for itself of each block's shared memory, from 8.0 on.
int reserved_shared() { return processor().shared - processor().shared_of_block; }

// 0 for every other attribute, which is "no" where it is a question.
int attribute(cudaDeviceAttr which, int device) {
  const Processor& here = processor();
  const std::pair<cudaDeviceAttr, int> known[] = {
      {cudaDevAttrMaxThreadsPerBlock, 1024},
      {cudaDevAttrMaxBlockDimX, 1024},
      {cudaDevAttrMaxBlockDimY, 1024},
      {cudaDevAttrMaxBlockDimZ, 64},
      {cudaDevAttrMaxGridDimX, 2147483647},
      {cudaDevAttrMaxGridDimY, 65535},
      {cudaDevAttrMaxGridDimZ, 65535},
      {cudaDevAttrMaxSharedMemoryPerBlock, 48 * kibibyte},
      {cudaDevAttrTotalConstantMemory, 64 * kibibyte},
      {cudaDevAttrWarpSize, 32},
      {cudaDevAttrMaxRegistersPerBlock, 65536},
      {cudaDevAttrMaxRegistersPerMultiprocessor, 65536},
      {cudaDevAttrClockRate, here.clock},
      {cudaDevAttrMemoryClockRate, here.memory_clock},
      {cudaDevAttrGlobalMemoryBusWidth, here.bus_bits},
      {cudaDevAttrMultiProcessorCount, here.processors},
      {cudaDevAttrMaxThreadsPerMultiProcessor, here.most_threads},
      {cudaDevAttrMaxBlocksPerMultiprocessor, here.most_blocks},
      {cudaDevAttrL2CacheSize, here.level_two},
      {cudaDevAttrComputeCapabilityMajor, here.capability / 10},
      {cudaDevAttrComputeCapabilityMinor, here.capability % 10},
      {cudaDevAttrMaxSharedMemoryPerMultiprocessor, here.shared},
      {cudaDevAttrMaxSharedMemoryPerBlockOptin, here.shared_of_block},
      {cudaDevAttrReservedSharedMemoryPerBlock, reserved_shared()},
      {cudaDevAttrPciBusId, device + 1},
      {cudaDevAttrCooperativeLaunch, 1},
      {cudaDevAttrUnifiedAddressing, 1},
      {cudaDevAttrStreamPrioritiesSupported, 1},
      {cudaDevAttrMemoryPoolsSupported, 1},
      {cudaDevAttrConcurrentKernels, 1},
      {cudaDevAttrCanMapHostMemory, 1},
  };
  const auto* const found =
      std::find_if(std::begin(known), std::end(known), [&](auto one) { return one.first == which; });
  return found == std::end(known) ? 0 : found->second;
}

cudaDeviceProp properties_of(int device) {
  const Processor& here = processor();
  cudaDeviceProp out = {};
  std::snprintf(out.name, sizeof out.name, "%s", here.name);
  out.totalGlobalMem = static_cast<std::size_t>(number("MEMORY_MIB", 81080)) << 20;
  out.sharedMemPerBlock = 48 * kibibyte;
  out.regsPerBlock = out.regsPerMultiprocessor = 65536;
  out.warpSize = 32;
  out.memPitch = 2147483647;
  out.maxThreadsPerBlock = out.maxThreadsDim[0] = out.maxThreadsDim[1] = 1024;
  out.maxThreadsDim[2] = 64;
  out.maxGridSize[0] = 2147483647;
  out.maxGridSize[1] = out.maxGridSize[2] = 65535;
  out.totalConstMem = 64 * kibibyte;
  out.major = here.capability / 10;
  out.minor = here.capability % 10;
  out.textureAlignment = 512;
  out.texturePitchAlignment = 32;
  out.multiProcessorCount = here.processors;
  out.canMapHostMemory = out.concurrentKernels = out.unifiedAddressing = out.streamPrioritiesSupported = 1;
  out.managedMemory = out.cooperativeLaunch = out.memoryPoolsSupported = out.hostRegisterSupported = 1;
  out.ECCEnabled = here.capability < 120;
  out.clusterLaunch = here.capability >= 90;
  out.asyncEngineCount = 3;
  out.memoryBusWidth = here.bus_bits;
  out.l2CacheSize = here.level_two;
  out.maxThreadsPerMultiProcessor = here.most_threads;
  out.maxBlocksPerMultiProcessor = here.most_blocks;
  out.sharedMemPerMultiprocessor = static_cast<std::size_t>(here.shared);
  out.sharedMemPerBlockOptin = static_cast<std::size_t>(here.shared_of_block);
  out.reservedSharedMemPerBlock = static_cast<std::size_t>(reserved_shared());
  out.pciBusID = device + 1;
  return out;
}

// The stand-in's libcuda.so.1 beside this library has every function that LibTorch asks for, if only to name it.
void* driver_function(const char* name) {
  static void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  return driver == nullptr ? nullptr : dlsym(driver, name);
}

// Loads what computes LibTorch's operations, which stands beside this library, as soon as LibTorch's CUDA half asks
// for GPUs. It could not be loaded before LibTorch.
void load_operations() {
  static std::atomic<bool> is_tried = false;
  Dl_info self = {};
  if (is_hidden() || dlopen("libtorch_cuda.so", RTLD_NOLOAD | RTLD_NOW) == nullptr ||
      dladdr(reinterpret_cast<const void*>(&device_count), &self) == 0) {
    return;
  }
  if (is_tried.exchange(true)) return;
  const std::string own = self.dli_fname, path = own.substr(0, own.rfind('/') + 1) + "libsoftware_operations.so";
  if (access(path.c_str(), F_OK) != 0 || dlopen(path.c_str(), RTLD_NOW) != nullptr) return;
  const char* const why = dlerror();
  end_with_mistake("what computes LibTorch's operations cannot be loaded: " + std::string(why == nullptr ? "" : why));
}

}  // namespace

int device_count() {
  static const int count = static_cast<int>(std::clamp(number("COUNT", 1), 1L, 16L));
  return count;
}

int current_device() { return device_of_thread; }

const Processor& processor() {
  static const Processor& chosen = [&]() -> const Processor& {
    const long wanted = number("CAPABILITY", 90);
    for (const Processor& one : processors) {
      if (one.capability == wanted) return one;
    }
    end_with_mistake("SOFTWARE_GPU_CAPABILITY is none of 75, 80, 90, 120");
  }();
  return chosen;
}

int capability() { return processor().capability; }

}  // namespace software_gpu

using namespace software_gpu;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  load_operations();
  return call("cudaGetDeviceCount", [&] {
    *count = is_hidden() ? 0 : device_count();
    return is_hidden() ? cudaErrorInsufficientDriver : cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* device) {
  *device = current_device();
  return is_hidden() ? cudaErrorInsufficientDriver : cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  return call("cudaSetDevice", [&] {
    if (const cudaError_t error = check_device(device)) return error;
    device_of_thread = device;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* out, int device) {
  return call("cudaGetDeviceProperties", [&] {
    if (const cudaError_t error = check_device(device)) return error;
    *out = properties_of(device);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int device) {
  return call("cudaDeviceGetAttribute", [&] {
    if (const cudaError_t error = check_device(device)) return error;
    *value = attribute(which, device);
    return cudaSuccess;
  });
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = is_hidden() ? 0 : CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) {
  return call("cudaDeviceEnablePeerAccess", [] { return cudaErrorPeerAccessUnsupported; });
}

cudaError_t cudaDeviceGetPCIBusId(char* out, int size, int device) {
  std::snprintf(out, static_cast<std::size_t>(size), "0000:%02x:00.0", static_cast<unsigned>(device + 1));
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** out, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  return call("cudaGetDriverEntryPointByVersion", [&] {
    *out = driver_function(name);
    if (result != nullptr) *result = *out == nullptr ? cudaDriverEntryPointSymbolNotFound : cudaDriverEntryPointSuccess;
    return cudaSuccess;
  });
}

cudaError_t cudaProfilerStart() { return cudaSuccess; }
cudaError_t cudaProfilerStop() { return cudaSuccess; }

}  // extern "C"
