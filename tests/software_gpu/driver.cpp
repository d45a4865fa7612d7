// libcuda.so.1 as far as LibTorch asks the driver itself, and the driver's device file. `build` adds a function for
// each other name that LibTorch looks up, which ends the process when it is called. The library has no symbol versions,
// so that its access() and stat() come before libc's.
#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace {

constexpr int no_device = 100;  // CUDA_ERROR_NO_DEVICE

bool has_driver() {
  const char* const hide = std::getenv("SOFTWARE_GPU_HIDE");
  return hide == nullptr || std::atol(hide) == 0;
}

bool is_device_file(const char* path) {
  return path != nullptr && std::string_view(path) == "/dev/nvidiactl" && has_driver();
}

}  // namespace

extern "C" {

int access(const char* path, int mode) noexcept {
  return is_device_file(path) ? 0 : static_cast<int>(syscall(SYS_access, path, mode));
}

int stat(const char* path, struct stat* out) noexcept {
  return static_cast<int>(syscall(SYS_newfstatat, AT_FDCWD, is_device_file(path) ? "/dev/null" : path, out, 0));
}

int cuInit(unsigned) { return has_driver() ? 0 : no_device; }

int cuDriverGetVersion(int* version) { return cudaDriverGetVersion(version); }

int cuDeviceGetCount(int* count) { return cudaGetDeviceCount(count) == cudaSuccess ? 0 : no_device; }

int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return 0;
}

int cuDeviceGetName(char* out, int size, int device) {
  cudaDeviceProp properties;
  if (const cudaError_t error = cudaGetDeviceProperties(&properties, device)) return error;
  std::snprintf(out, static_cast<std::size_t>(size), "%s", properties.name);
  return 0;
}

int cuDeviceGetAttribute(int* value, int which, int device) {  // the runtime numbers them as the driver does
  return cudaDeviceGetAttribute(value, static_cast<cudaDeviceAttr>(which), device);
}

int cuDevicePrimaryCtxGetState(int, unsigned* flags, int* is_active) {
  *flags = 0;
  *is_active = 1;
  return 0;
}

int cuCtxGetCurrent(void** context) {
  static int of_process;
  *context = &of_process;
  return 0;
}

int cuCtxSetCurrent(void*) { return 0; }

int cuGetErrorString(int error, const char** text) {
  *text = cudaGetErrorString(static_cast<cudaError_t>(error));
  return 0;
}

}  // extern "C"
