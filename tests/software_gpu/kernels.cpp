// Our own kernels, put on the stream: part of a libinkling_cuda.so whose kernels are those that
// tests/kernels/cuda/emulation compiles for the CPU. The rest of that library is the real one's.
#include <cuda_runtime.h>  // the emulation's: what software_gpu.h declares in terms of CUDA's own is declared anew
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>

struct CUstream_st;

namespace software_gpu {

void* on_host(const void* address);
cudaError_t launch_own(const std::string& name, dim3 grid, dim3 block, std::size_t shared, CUstream_st* stream,
                       std::function<void()> run);

namespace {

// The names of this library's functions by address, of which nm alone knows those in unnamed namespaces.
std::map<std::uintptr_t, std::string> names_of_functions() {
  Dl_info self{};
  dladdr(reinterpret_cast<const void*>(&names_of_functions), &self);
  const std::string command = std::string("env -u LD_PRELOAD nm --demangle --defined-only ") + self.dli_fname;
  std::map<std::uintptr_t, std::string> names;
  FILE* const listed = popen(command.c_str(), "r");
  if (listed == nullptr) throw std::runtime_error("nm does not start");
  char* line = nullptr;
  std::size_t size = 0;
  while (getline(&line, &size, listed) > 0) {
    std::string name = line;
    name.pop_back();  // address, kind, name
    const std::uintptr_t address = std::strtoull(name.c_str(), nullptr, 16);
    if (name.size() > 19) names[reinterpret_cast<std::uintptr_t>(self.dli_fbase) + address] = name.substr(19);
  }
  std::free(line);
  pclose(listed);
  return names;
}

cudaError_t put_on_stream(const cudaLaunchConfig_t& config, const void* kernel, std::function<void()> body) {
  static const auto names = names_of_functions();
  const auto found = names.find(reinterpret_cast<std::uintptr_t>(kernel));
  return launch_own(found == names.end() ? "a kernel without a name" : found->second, config.gridDim, config.blockDim,
                    config.dynamicSmemBytes, static_cast<CUstream_st*>(config.stream), std::move(body));
}

[[maybe_unused]] const bool is_put = [] {
  emulation::launcher = put_on_stream;
  emulation::reach = [](void* address) { return on_host(address); };
  return true;
}();

}  // namespace
}  // namespace software_gpu
