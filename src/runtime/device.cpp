#include "runtime/device.h"

#include <dlfcn.h>
#include <unistd.h>

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/Generator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/paths.h"
#include "base/strings.h"
#include "base/thread_choice.h"
#include "config/config.h"
#include "kernels/cpu_kernels.h"
#include "runtime/cpu_memory.h"

namespace inkling {

namespace {

bool has_driver() { return access("/dev/nvidiactl", F_OK) == 0 || access("/dev/dxg", F_OK) == 0; }

// A function of CUDA's runtime, which comes with LibTorch's CUDA half; null before that is loaded.
template <typename Function>
Function* of_cuda(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

// The CUDA half that stands beside the LibTorch that is loaded: whoever finds that one need not find this one too, as
// in a program that links inkling's library. The bare name where the loaded one does not say where it is.
std::filesystem::path torch_cuda_library() {
  Dl_info loaded{};
  const bool is_known = dladdr(reinterpret_cast<const void*>(&at::globalContext), &loaded) != 0;
  const std::filesystem::path folder = is_known ? std::filesystem::path(loaded.dli_fname).parent_path() : "";
  return folder / "libtorch_cuda.so";
}

// LibTorch's CUDA half registers itself when it is loaded.
std::string load_cuda() {
  if (!has_driver()) return "no NVIDIA driver runs here: there is no /dev/nvidiactl";
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);  // cuBLAS is deterministic only with a fixed workspace
  if (dlopen(torch_cuda_library().c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    const char* const reason = dlerror();
    return str("LibTorch's CUDA half cannot be loaded: ", reason == nullptr ? "no reason given" : reason);
  }
  if (at::globalContext().hasCUDA()) return "";
  const auto count_gpus = of_cuda<int(int*)>("cudaGetDeviceCount");
  const auto describe = of_cuda<const char*(int)>("cudaGetErrorString");
  int count = 0;
  const int error = count_gpus == nullptr ? 0 : count_gpus(&count);
  return str("LibTorch finds no GPU", error == 0 || describe == nullptr ? "" : str(": ", describe(error)));
}

at::Device resolve_device(const std::optional<DeviceChoice>& wanted) {
  if (wanted && !wanted->cuda) return at::kCPU;
  const std::string& why_not = why_no_cuda();
  if (!wanted) {
    if (why_not.empty()) return at::Device("cuda:0");
    if (has_driver()) log_warning(str("the GPU is not used: ", why_not));
    return at::kCPU;
  }
  if (!why_not.empty()) {
    throw Error::environment(str("the device ", device_text(*wanted),
                                 " is asked for, but no GPU can be used: ", why_not, "; choose cpu or auto"));
  }
  const int index = wanted->index.value_or(0), count = static_cast<int>(at::getNumGPUs());
  if (index >= count) {
    throw Error::environment(str("the device ", device_text(*wanted), " is asked for, but this machine has ", count,
                                 count == 1 ? " GPU: cuda:0" : " GPUs, counted from cuda:0"));
  }
  return at::Device(at::kCUDA, static_cast<at::DeviceIndex>(index));
}

at::ScalarType resolve_dtype(const std::optional<Dtype>& wanted, at::Device device) {
  if (wanted) return *wanted == Dtype::float32 ? at::kFloat : at::kBFloat16;
  return device.is_cuda() ? fastest_dtype(compute_capability(device).major) : at::kFloat;
}

Kernels resolve_kernels(const std::optional<Kernels>& wanted, at::Device device, at::ScalarType dtype, Use use) {
  const bool in_bfloat16 = dtype == at::kBFloat16;
  if (wanted == Kernels::fused && device.is_cpu() && in_bfloat16 && use == Use::training) {
    throw Error::input(
        "runtime.kernels is fused, but the fused kernels train on the CPU in float32 only, not in bfloat16; set "
        "runtime.kernels to auto or reference, or runtime.dtype to float32");
  }
  if (wanted) return *wanted;
  const bool there = device.is_cpu() ? !in_bfloat16 || use == Use::inference
                                     : has_fused_kernels(compute_capability(device).major) &&
                                           std::filesystem::exists(cuda_library_path());
  return there ? Kernels::fused : Kernels::reference;
}

// What is no number of threads is said once, however often a program asks.
ThreadChoice threads_of_auto() {
  ThreadChoice choice = choose_threads(ThreadUse::arithmetic, find_thread_limits());
  [[maybe_unused]] static const bool is_said = [&] {
    for (const std::string& ignored : choice.ignored) log_warning(str(ignored, ", which is no number of threads"));
    return true;
  }();
  return choice;
}

}  // namespace

const std::string& why_no_cuda() {
  static const std::string why = load_cuda();
  return why;
}

std::filesystem::path cuda_library_path() { return own_folder() / "libinkling_cuda.so"; }

at::ScalarType fastest_dtype(int capability) { return capability >= 8 ? at::kBFloat16 : at::kFloat; }

std::string Runtime::device_name() const {
  if (device.is_cpu()) return str("cpu, ", threads, threads == 1 ? " thread" : " threads");
  return device.str();
}

std::string Runtime::dtype_name() const {
  return std::string(word_of(dtype == at::kFloat ? Dtype::float32 : Dtype::bfloat16));
}

Runtime choose_runtime(const RuntimeConfig& config, Use use) {
  cpu_kernels();  // refuses an instruction set that this processor does not have, before there is any work
  Runtime runtime;
  runtime.device = resolve_device(config.device);
  runtime.dtype = resolve_dtype(config.dtype, runtime.device);
  runtime.kernels = resolve_kernels(config.kernels, runtime.device, runtime.dtype, use);
  const ThreadChoice choice =
      config.threads ? ThreadChoice{.threads = static_cast<int>(*config.threads)} : threads_of_auto();
  runtime.threads = choice.threads;
  if (runtime.device.is_cpu()) runtime.thread_limit = choice.limit;
  runtime.deterministic = config.deterministic;
  return runtime;
}

Kernels kernels_as_before(Kernels before, RuntimeConfig config) {
  config.kernels.reset();
  const Kernels automatic = choose_runtime(config).kernels;
  return before == Kernels::fused ? automatic : before;
}

std::optional<c10::Stream> own_stream(at::Device device) {
  if (!device.is_cuda()) return std::nullopt;
  synchronize(device);  // the new stream does not wait for what is queued on the default one
  return c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
}

Determinism determinism() {
  const at::Context& context = at::globalContext();
  return {.algorithms = context.deterministicAlgorithms(),
          .only_warn = context.deterministicAlgorithmsWarnOnly(),
          .fill = context.deterministicFillUninitializedMemory(),
          .cudnn = context.deterministicCuDNN()};
}

void set_determinism(const Determinism& switches) {
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(switches.algorithms, switches.only_warn);
  context.setDeterministicFillUninitializedMemory(switches.fill);
  context.setDeterministicCuDNN(switches.cudnn);
}

// A fill would be a pass over each new tensor, for nothing.
Determinism determinism_of(const Runtime& runtime) {
  return {.algorithms = runtime.deterministic, .cudnn = runtime.deterministic};
}

Runtime resolve_runtime(const RuntimeConfig& config, Use use) {
  const Runtime runtime = choose_runtime(config, use);
  // Numbers below 1e-38 become 0, because computing with one takes as long as a hundred additions. Threads inherit this
  // setting, so it is made before the first of them starts.
  at::globalContext().setFlushDenormal(true);
  at::set_num_threads(runtime.threads);
  set_determinism(determinism_of(runtime));
  if (const auto stream = own_stream(runtime.device)) {
    const c10::impl::VirtualGuardImpl guard(runtime.device.type());
    guard.setDevice(runtime.device);
    guard.exchangeStream(*stream);
  }
  return runtime;
}

Resolved resolved_from(const Runtime& runtime) {
  Resolved resolved;
  if (runtime.device.is_cuda()) resolved.device = {.cuda = true, .index = runtime.device.index()};
  resolved.dtype = runtime.dtype == at::kFloat ? Dtype::float32 : Dtype::bfloat16;
  resolved.threads = runtime.threads;
  resolved.split = runtime.split;
  resolved.kernels = runtime.kernels;
  resolved.deterministic = runtime.deterministic;
  return resolved;
}

void synchronize(at::Device device) {
  if (device.is_cuda()) c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
}

void seed_generator(at::Device device, std::uint64_t seed) {
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(seed);
}

std::optional<DeviceMemory> device_memory(at::Device device) {
  if (device.is_cpu()) return std::nullopt;
  const auto [free, total] = c10::getDeviceAllocator(device.type())->getMemoryInfo(device.index());
  return DeviceMemory{free, total};
}

ComputeCapability compute_capability(at::Device device) {
  constexpr int major = 75, minor = 76;  // cudaDevAttrComputeCapability…
  const auto get = reinterpret_cast<int (*)(int*, int, int)>(dlsym(RTLD_DEFAULT, "cudaDeviceGetAttribute"));
  ComputeCapability found;
  const int index = device.has_index() ? device.index() : 0;  // CUDA would keep the error for LibTorch's next call
  if (get == nullptr || get(&found.major, major, index) != 0 || get(&found.minor, minor, index) != 0) return {};
  return found;
}

std::string gpu_name(at::Device device) {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);  // which CUDA has loaded before
  if (driver == nullptr) return "";
  const auto get = reinterpret_cast<int (*)(char*, int, int)>(dlsym(driver, "cuDeviceGetName"));
  char name[256] = "";
  return get != nullptr && get(name, sizeof name - 1, device.index()) == 0 ? name : "";
}

bool computes_with_threads(at::Device device) { return device.is_cpu(); }

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
