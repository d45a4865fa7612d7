// What a device has, and what this process holds of it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace inkling {

struct DeviceMemory {
  std::uint64_t free = 0, total = 0;  // bytes
};

// Of a GPU. None for the CPU, whose memory the system gives and takes.
std::optional<DeviceMemory> device_memory(at::Device device);

// Whether running out of memory is an error there. On the CPU the system ends the process instead.
bool reports_lack_of_memory(at::Device device);

// What tensors on `device` held at their peak, freed ones kept for later ones included, bytes. On the CPU of what was
// allocated since reuse_cpu_memory().
std::uint64_t held_bytes(at::Device device);

// The device's peak in floating-point operations per second for dense bfloat16 products; 0 if unknown.
double peak_flops(at::Device device, at::ScalarType dtype);

}  // namespace inkling
