// Launches and their checks. LibTorch's kernels compute nothing here: its operations are computed in operations.cpp.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <unordered_map>

#include "runtime.h"

namespace software_gpu {
namespace {

constexpr int warp = 32, most_registers = 65536;

std::string text_of(const Launch& launch) {
  char text[160];
  std::snprintf(text, sizeof text, "grid %u %u %u block %u %u %u shared %zu", launch.grid.x, launch.grid.y,
                launch.grid.z, launch.block.x, launch.block.y, launch.block.z, launch.shared);
  return text;
}

// The device memory that a launch names, and complaints about addresses that a GPU could not use.
std::vector<Use> uses_of(const Kernel& kernel, void** arguments) {
  std::vector<Use> uses;
  for (std::size_t i = 0; arguments != nullptr && i < kernel.pointers.size(); ++i) {
    for (int n = 0; n < kernel.pointers[i]; ++n) {
      const char* const address = static_cast<const char**>(arguments[i])[n];
      if (address == nullptr || is_live_pinned_memory(address, 1)) continue;
      const auto complain_of = [&](const char* what) {
        complain(std::string(what) + " is argument " + std::to_string(i) + " of " + kernel.name);
      };
      if (!is_device_memory(address)) {
        complain_of("an address of the host");
      } else if (device_of(address) != current_device()) {
        complain_of("memory of another device");
      } else if (is_live(address, 1)) {
        uses.push_back({address, 1});
      } else if (!is_live(address - 1, 1)) {  // an empty tensor may lie just behind an allocation
        complain_of("memory that is not allocated");
      }
    }
  }
  return uses;
}

cudaError_t launch_kernel(Kernel* kernel, const Launch& shape, void** arguments, cudaStream_t stream) {
  if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
  if (!has_image(*kernel)) return cudaErrorNoKernelImageForDevice;
  Launch launch = shape;
  launch.limits = kernel->limits;
  launch.most_dynamic = kernel->most_dynamic;
  if (const cudaError_t error = check_launch(launch)) return error;
  Stream* const at = find_stream(stream);
  if (at == nullptr || at->device != current_device()) return cudaErrorInvalidResourceHandle;
  if (kernel->counts->shape.empty()) kernel->counts->shape = text_of(launch);
  return submit(at, {.work = {.kind = "kernel", .name = kernel->name},
                     .kernel = kernel->counts,
                     .uses = uses_of(*kernel, arguments)});
}

struct Limits {
  bool is_there = false;
  std::unordered_map<std::string, KernelLimits> by_name;
};

const Limits& limits() {
  static const Limits& read = *[] {
    auto all = std::make_unique<Limits>();
    std::ifstream file(setting("LIMITS", ""));
    all->is_there = file.is_open();
    KernelLimits one;
    for (std::string name; file >> one.registers >> one.static_shared >> one.most_threads;) {
      std::getline(file >> std::ws, name);
      all->by_name[name] = one;
    }
    return all.release();
  }();
  return read;
}

}  // namespace

const KernelLimits* known_limits(const std::string& name) {
  const auto found = limits().by_name.find(name);
  return found == limits().by_name.end() ? nullptr : &found->second;
}

bool knows_any_limits() { return limits().is_there; }

cudaError_t check_launch(const Launch& launch) {
  const auto& [grid, block, shared, kernel, most_dynamic] = launch;
  const std::size_t threads = std::size_t{block.x} * block.y * block.z;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || threads == 0) return cudaErrorInvalidConfiguration;
  if (grid.x > 2147483647u || grid.y > 65535 || grid.z > 65535) return cudaErrorInvalidConfiguration;
  if (block.x > 1024 || block.y > 1024 || block.z > 64 || threads > 1024) return cudaErrorInvalidConfiguration;
  const auto static_shared = static_cast<std::size_t>(kernel.static_shared);
  if (shared + static_shared > std::max<std::size_t>(most_dynamic + static_shared, 48 * 1024) ||
      shared > most_dynamic) {
    return cudaErrorInvalidValue;
  }
  if (threads > static_cast<std::size_t>(kernel.most_threads)) return cudaErrorInvalidConfiguration;
  const std::size_t warps = (threads + warp - 1) / warp;
  const auto registers = static_cast<std::size_t>((kernel.registers + 7) / 8 * 8);  // given out by eights
  return warps * warp * registers > most_registers ? cudaErrorLaunchOutOfResources : cudaSuccess;
}

int blocks_of_processor(const Launch& launch) {
  const int threads = static_cast<int>(launch.block.x * launch.block.y * launch.block.z);
  if (check_launch(launch) != cudaSuccess) return 0;
  const int with_warps = (threads + warp - 1) / warp * warp;
  const int shared =
      static_cast<int>(launch.shared) + launch.limits.static_shared + processor().shared - processor().shared_of_block;
  const int by_shared = shared == 0 ? processor().most_blocks : processor().shared / shared;
  const int by_registers = most_registers / (with_warps * ((launch.limits.registers + 7) / 8 * 8));
  return std::min({processor().most_threads / with_warps, by_shared, by_registers, processor().most_blocks});
}

cudaError_t launch_own(const std::string& name, dim3 grid, dim3 block, std::size_t shared, cudaStream_t stream,
                       std::function<void()> run) {
  return call("launch of one of our kernels", [&]() -> cudaError_t {
    const KernelLimits* const known = known_limits(name);
    if (known == nullptr && knows_any_limits()) complain("there are no limits for the kernel " + name);
    const Launch launch = {.grid = grid, .block = block, .shared = shared, .limits = known ? *known : KernelLimits{}};
    if (const cudaError_t error = check_launch(launch)) return error;
    Stream* const at = find_stream(stream);
    if (at == nullptr || at->device != current_device()) return cudaErrorInvalidResourceHandle;
    KernelCounts& counts = counts_of_kernel(name);
    if (counts.shape.empty()) counts.shape = text_of(launch);
    const std::size_t threads = std::size_t{grid.x} * grid.y * grid.z * block.x * block.y * block.z;
    if (is_within_operation() || (!computes() && threads > most_elements_of_what_is_small)) run = {};
    return submit(at, {.work = {.kind = "kernel", .name = name, .run = std::move(run)}, .kernel = &counts});
  });
}

}  // namespace software_gpu

using namespace software_gpu;

namespace {

struct CallConfiguration {
  dim3 grid, block;
  std::size_t shared;
  cudaStream_t stream;
};
thread_local std::vector<CallConfiguration> configurations;

}  // namespace

extern "C" {

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared, CUstream_st* stream) {
  configurations.push_back({grid, block, shared, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared, void* stream) {
  if (configurations.empty()) return cudaErrorMissingConfiguration;
  const CallConfiguration last = configurations.back();
  configurations.pop_back();
  *grid = last.grid;
  *block = last.block;
  *shared = last.shared;
  *static_cast<cudaStream_t*>(stream) = last.stream;
  return cudaSuccess;
}

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments, std::size_t shared,
                             cudaStream_t stream) {
  return call("cudaLaunchKernel", [&] {
    return launch_kernel(find_kernel(function), {.grid = grid, .block = block, .shared = shared}, arguments, stream);
  });
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared,
                               cudaStream_t stream) {
  return cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void** arguments) {
  return call("cudaLaunchKernel", [&] {
    const dim3 grid = config->gridDim;
    for (unsigned i = 0; i < config->numAttrs; ++i) {
      if (config->attrs[i].id != cudaLaunchAttributeClusterDimension) continue;
      const auto cluster = config->attrs[i].val.clusterDim;
      const bool divides = grid.x % cluster.x == 0 && grid.y % cluster.y == 0 && grid.z % cluster.z == 0;
      if (capability() < 90 || !divides || cluster.x * cluster.y * cluster.z > 8) return cudaErrorInvalidClusterSize;
    }
    return launch_kernel(find_kernel(function),
                         {.grid = grid, .block = config->blockDim, .shared = config->dynamicSmemBytes}, arguments,
                         config->stream);
  });
}

cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                                        std::size_t shared, cudaStream_t stream) {
  return call("cudaLaunchCooperativeKernel", [&] {
    Kernel* const kernel = find_kernel(function);
    Launch launch = {.grid = grid, .block = block, .shared = shared};
    if (kernel != nullptr) launch.limits = kernel->limits;
    const auto most =
        static_cast<std::size_t>(blocks_of_processor(launch)) * static_cast<std::size_t>(processor().processors);
    if (std::size_t{grid.x} * grid.y * grid.z > most) return cudaErrorCooperativeLaunchTooLarge;
    return launch_kernel(kernel, launch, arguments, stream);
  });
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute which, int value) {
  return call("cudaFuncSetAttribute", [&] {
    Kernel* const kernel = find_kernel(function);
    if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
    if (which != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
    if (value < 0 || value + kernel->limits.static_shared > processor().shared_of_block) return cudaErrorInvalidValue;
    kernel->most_dynamic = static_cast<std::size_t>(value);
    return cudaSuccess;
  });
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* out, const void* function) {
  return call("cudaFuncGetAttributes", [&] {
    const Kernel* const kernel = find_kernel(function);
    if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
    if (!has_image(*kernel)) return cudaErrorNoKernelImageForDevice;
    const int by_registers = most_registers / ((kernel->limits.registers + 7) / 8 * 8) / warp * warp;
    *out = {};
    out->maxThreadsPerBlock = std::min(kernel->limits.most_threads, by_registers);
    out->numRegs = kernel->limits.registers;
    out->sharedSizeBytes = static_cast<std::size_t>(kernel->limits.static_shared);
    out->ptxVersion = out->binaryVersion = capability();
    out->maxDynamicSharedSizeBytes = static_cast<int>(kernel->most_dynamic);
    return cudaSuccess;
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* out, const void* function, int block,
                                                                   std::size_t shared, unsigned) {
  return call("cudaOccupancyMaxActiveBlocksPerMultiprocessor", [&] {
    const Kernel* const kernel = find_kernel(function);
    if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
    *out = blocks_of_processor({.grid = {1, 1, 1},
                                .block = {static_cast<unsigned>(block), 1, 1},
                                .shared = shared,
                                .limits = kernel->limits,
                                .most_dynamic = kernel->most_dynamic});
    return cudaSuccess;
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* out, const void* function, int block,
                                                          std::size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(out, function, block, shared, 0);
}

}  // extern "C"
