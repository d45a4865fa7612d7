// What nvcc's code registers when a library is loaded: kernels and variables of the device.
#include <algorithm>
#include <cstdint>
#include <unordered_map>

#include "parameters.h"
#include "runtime.h"

namespace software_gpu {
namespace {

struct Variable {
  std::size_t bytes = 0;
  void* address = nullptr;  // once somebody asked for it
};

struct Registered {
  std::unordered_map<const void*, std::unique_ptr<Kernel>> kernels;  // by the function on the host
  std::unordered_map<const void*, Variable> variables;
  std::unordered_map<const void*, bool> runs;        // of binaries: whether they hold an image for this processor
  std::unordered_map<const void*, Kernel*> handles;  // that programs were given: the kernels themselves
};

Registered& registered() {
  static Registered& all = *new Registered;
  return all;
}

// Code of this processor's generation, or PTX of an earlier one, which the driver would compile. A binary is a header
// of 16 bytes or more, and entries whose own headers say what they hold; nvcc's fatbinary_section.h has the wrapper.
bool runs_here(const void* wrapper) {
  struct Wrapper {
    std::uint32_t magic, version;
    const char* data;
  };
  const auto read = [](const char* at, auto value) {
    std::copy_n(at, sizeof value, reinterpret_cast<char*>(&value));
    return value;
  };
  constexpr std::uint16_t ptx = 1, code = 2;
  const Wrapper& binary = *static_cast<const Wrapper*>(wrapper);
  if (binary.magic != 0x466243b1 || read(binary.data, std::uint32_t{}) != 0xba55ed50) return true;
  const auto here = static_cast<std::uint32_t>(capability());
  const char* entry = binary.data + read(binary.data + 6, std::uint16_t{});
  const char* const end = entry + read(binary.data + 8, std::uint64_t{});
  while (entry + 64 <= end) {
    const auto kind = read(entry, std::uint16_t{});
    const auto architecture = read(entry + 28, std::uint32_t{});
    if (kind == code && architecture / 10 == here / 10 && architecture % 10 <= here % 10) return true;
    if (kind == ptx && architecture <= here) return true;
    entry += read(entry + 4, std::uint32_t{}) + read(entry + 8, std::uint64_t{});
  }
  return false;
}

// What is found out about a kernel once somebody uses it, as LibTorch registers tens of thousands.
void describe_kernel(Kernel& kernel) {
  kernel.name = demangled(kernel.mangled);
  kernel.counts = &counts_of_kernel(kernel.name);
  kernel.pointers = pointers_of_parameters(kernel.name);
  if (const KernelLimits* const known = known_limits(kernel.name)) kernel.limits = *known;
}

// A library that a program loads itself, as PTX.
struct Library {
  std::string text;
  std::map<std::string, Kernel> kernels = {};  // those that were asked for
};

}  // namespace

bool has_image(const Kernel& kernel) {
  if (kernel.binary == nullptr) return true;  // PTX that was loaded as text
  const auto [found, is_new] = registered().runs.try_emplace(kernel.binary, true);
  if (is_new) found->second = runs_here(*kernel.binary);
  return found->second;
}

Kernel* find_kernel(const void* function) {
  Registered& all = registered();
  if (const auto handle = all.handles.find(function); handle != all.handles.end()) return handle->second;
  const auto found = all.kernels.find(function);
  if (found == all.kernels.end()) return nullptr;
  Kernel* const kernel = found->second.get();
  if (all.handles.try_emplace(kernel, kernel).second) describe_kernel(*kernel);
  return kernel;
}

}  // namespace software_gpu

using namespace software_gpu;

extern "C" {

void** __cudaRegisterFatBinary(void* image) { return new void*(image); }  // the name of the binary from now on
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }

void __cudaRegisterFunction(void** binary, const char* function, char*, const char* mangled, int, uint3*, uint3*, dim3*,
                            dim3*, int*) {
  const std::scoped_lock lock(mutex());
  registered().kernels[function] = std::make_unique<Kernel>(Kernel{.mangled = mangled, .binary = binary});
}

void __cudaRegisterVar(void**, char* variable, char*, const char*, int, std::size_t bytes, int, int) {
  const std::scoped_lock lock(mutex());
  registered().variables[variable].bytes = bytes;
}

cudaError_t __cudaGetKernel(cudaKernel_t* out, const void* function) {
  return call("__cudaGetKernel", [&] {
    *out = reinterpret_cast<cudaKernel_t>(find_kernel(function));
    return *out == nullptr ? cudaErrorInvalidDeviceFunction : cudaSuccess;
  });
}

cudaError_t cudaLibraryLoadData(cudaLibrary_t* out, const void* code, cudaJitOption*, void**, unsigned,
                                cudaLibraryOption*, void**, unsigned) {
  return call("cudaLibraryLoadData", [&] {
    auto library = std::make_unique<Library>(Library{.text = static_cast<const char*>(code)});
    *out = reinterpret_cast<cudaLibrary_t>(library.release());
    return cudaSuccess;
  });
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t* out, cudaLibrary_t which, const char* name) {
  return call("cudaLibraryGetKernel", [&] {
    Library& library = *reinterpret_cast<Library*>(which);
    if (library.text.find(std::string(".entry ") + name) == std::string::npos) return cudaErrorSymbolNotFound;
    Kernel& kernel = library.kernels.try_emplace(name, Kernel{.mangled = nullptr, .binary = nullptr}).first->second;
    kernel.mangled = library.kernels.find(name)->first.c_str();
    if (registered().handles.try_emplace(&kernel, &kernel).second) describe_kernel(kernel);
    *out = reinterpret_cast<cudaKernel_t>(&kernel);
    return cudaSuccess;
  });
}

cudaError_t cudaLibraryUnload(cudaLibrary_t which) {
  return call("cudaLibraryUnload", [&] {
    const std::unique_ptr<Library> library(reinterpret_cast<Library*>(which));
    for (const auto& [name, kernel] : library->kernels) registered().handles.erase(&kernel);
    return cudaSuccess;
  });
}

cudaError_t cudaGetSymbolAddress(void** out, const void* symbol) {
  return call("cudaGetSymbolAddress", [&]() -> cudaError_t {
    const auto found = registered().variables.find(symbol);
    if (found == registered().variables.end()) return cudaErrorSymbolNotFound;
    Variable& variable = found->second;
    if (variable.address == nullptr) {
      if (const cudaError_t error = take_device_memory(&variable.address, variable.bytes)) return error;
    }
    *out = variable.address;
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, std::size_t bytes, std::size_t offset,
                               cudaMemcpyKind kind) {
  void* address = nullptr;
  const cudaError_t error = cudaGetSymbolAddress(&address, symbol);
  return error != cudaSuccess ? error : cudaMemcpy(static_cast<char*>(address) + offset, from, bytes, kind);
}

}  // extern "C"
