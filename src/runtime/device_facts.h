// What memory a device has, what this process holds of it, and how fast the device is.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>

namespace inkling {

struct DeviceMemory {
  std::uint64_t free = 0, total = 0;  // bytes
};

// Returns the memory of a GPU; none for the CPU, where train/fit asks the system.
std::optional<DeviceMemory> device_memory(at::Device device);

// The compute capability of a GPU: 9 and 0 for Hopper. Zeros where CUDA does not say, or is not loaded.
struct ComputeCapability {
  int major = 0, minor = 0;
};
ComputeCapability compute_capability(at::Device device);

// "NVIDIA H100 80GB HBM3", as the driver calls a GPU; "" where it does not say.
std::string gpu_name(at::Device device);

// Whether a tensor that does not fit is an error there. On the CPU the system ends the process instead.
bool reports_lack_of_memory(at::Device device);

// Returns the most bytes that tensors on `device` held at any time, with blocks that are kept for later. On the CPU it
// counts from reuse_cpu_memory() on.
std::uint64_t held_bytes(at::Device device);

// Returns the device's peak in floating-point operations per second for dense bfloat16 products; 0 if unknown.
double peak_flops(at::Device device, at::ScalarType dtype);

}  // namespace inkling
