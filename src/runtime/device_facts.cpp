#include "runtime/device_facts.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <dlfcn.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/cpu_memory.h"

namespace inkling {

std::optional<DeviceMemory> device_memory(at::Device device) {
  if (device.is_cpu()) return std::nullopt;
  const auto [free, total] = c10::getDeviceAllocator(device.type())->getMemoryInfo(device.index());
  return DeviceMemory{free, total};
}

ComputeCapability compute_capability(at::Device device) {
  constexpr int major = 75, minor = 76;  // cudaDevAttrComputeCapability…
  const auto get = reinterpret_cast<int (*)(int*, int, int)>(dlsym(RTLD_DEFAULT, "cudaDeviceGetAttribute"));
  ComputeCapability found;
  if (get == nullptr || get(&found.major, major, device.index()) != 0 ||
      get(&found.minor, minor, device.index()) != 0) {
    return {};
  }
  return found;
}

std::string gpu_name(at::Device device) {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);  // which CUDA has loaded before
  if (driver == nullptr) return "";
  const auto get = reinterpret_cast<int (*)(char*, int, int)>(dlsym(driver, "cuDeviceGetName"));
  char name[256] = "";
  return get != nullptr && get(name, sizeof name - 1, device.index()) == 0 ? name : "";
}

bool reports_lack_of_memory(at::Device device) { return !device.is_cpu(); }

std::uint64_t held_bytes(at::Device device) {
  if (device.is_cpu()) return cpu_memory().max_held;
  const auto statistics = c10::getDeviceAllocator(device.type())->getDeviceStats(device.index());
  return static_cast<std::uint64_t>(statistics.reserved_bytes[0].peak);
}

double peak_flops(at::Device device, at::ScalarType dtype) {
  if (!device.is_cuda() || dtype != at::kBFloat16) return 0;
  constexpr std::array<std::pair<std::string_view, double>, 8> known = {{{"H200", 989e12},
                                                                         {"H100 PCIe", 756e12},
                                                                         {"H100", 989e12},
                                                                         {"A100", 312e12},
                                                                         {"L40S", 362e12},
                                                                         {"RTX 4090", 165e12},
                                                                         {"RTX 3090", 71e12},
                                                                         {"A10", 125e12}}};
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", ignored)) {
    std::ifstream information(entry.path() / "information");
    std::string line;
    std::getline(information, line);
    for (const auto& [name, flops] : known) {
      if (line.find(name) != std::string::npos) return flops;
    }
  }
  return 0;
}

}  // namespace inkling
