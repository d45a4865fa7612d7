#include "runtime/device.h"

#include <dlfcn.h>
#include <unistd.h>

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/Generator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/paths.h"
#include "base/rank_place.h"
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

// 0 where CUDA does not say, or is not loaded.
int attribute_of_gpu(at::Device device, int attribute) {
  const auto get = of_cuda<int(int*, int, int)>("cudaDeviceGetAttribute");
  int value = 0;
  const int index = device.has_index() ? device.index() : 0;  // CUDA would keep the error for LibTorch's next call
  return get != nullptr && get(&value, attribute, index) == 0 ? value : 0;
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
    if (why_not.empty()) return resolve_device(DeviceChoice{.cuda = true});
    if (has_driver()) log_warning(str("the GPU is not used: ", why_not));
    return at::kCPU;
  }
  if (!why_not.empty()) {
    throw Error::environment(str("the device ", device_text(*wanted),
                                 " is asked for, but no GPU can be used: ", why_not, "; choose cpu or auto"));
  }
  const int count = static_cast<int>(at::getNumGPUs());
  const int index = wanted->index.value_or(find_place_on_machine().gpu(count));
  if (index >= count) {
    throw Error::environment(str("the device ", device_text(*wanted), " is asked for, but this machine has ", count,
                                 count == 1 ? " GPU: cuda:0" : " GPUs, counted from cuda:0"));
  }
  return at::Device(at::kCUDA, static_cast<at::DeviceIndex>(index));
}

// Said once, however often a program asks.
void warn_of_emulation(ComputeCapability capability) {
  [[maybe_unused]] static const bool is_said = [&] {
    log_warning(str("runtime.dtype: bfloat16 is emulated by a GPU of compute capability ", capability.major, ".",
                    capability.minor, ", which makes it slower than float32; GPUs from 8.0 on have it"));
    return true;
  }();
}

at::ScalarType resolve_dtype(const std::optional<Dtype>& wanted, at::Device device) {
  if (device.is_cpu()) return wanted == Dtype::bfloat16 ? at::kBFloat16 : at::kFloat;
  const ComputeCapability capability = compute_capability(device);
  if (!wanted) return fastest_dtype(capability.major);
  if (*wanted == Dtype::float32) return at::kFloat;
  if (capability.major > 0 && fastest_dtype(capability.major) != at::kBFloat16) warn_of_emulation(capability);
  return at::kBFloat16;
}

Kernels resolve_kernels(const std::optional<Kernels>& wanted, at::Device device, at::ScalarType dtype, Use use) {
  const bool in_bfloat16 = dtype == at::kBFloat16;
  if (wanted == Kernels::fused && device.is_cpu() && in_bfloat16 && use == Use::training) {
    throw Error::input(
        "runtime.kernels is fused, but the fused kernels train on the CPU in float32 only, not in bfloat16; set "
        "runtime.kernels to auto or reference, or runtime.dtype to float32");
  }
  if (!device.is_cpu()) {
    return kernels_on_gpu(wanted, compute_capability(device), std::filesystem::exists(cuda_library_path()));
  }
  if (wanted) return *wanted;
  return !in_bfloat16 || use == Use::inference ? Kernels::fused : Kernels::reference;
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

Kernels kernels_on_gpu(const std::optional<Kernels>& wanted, ComputeCapability capability, bool has_library) {
  const bool is_too_old = capability.major > 0 && !has_fused_kernels(capability.major);
  if (wanted == Kernels::fused && is_too_old) {
    throw Error::environment(
        str("runtime.kernels is fused, and the fused kernels need a GPU of compute capability 8.0 ",
            "(Ampere) or later; this one has ", capability.major, ".", capability.minor,
            ". Set runtime.kernels to auto or reference, with which LibTorch's operations compute"));
  }
  if (wanted) return *wanted;
  return has_fused_kernels(capability.major) && has_library ? Kernels::fused : Kernels::reference;
}

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

ComputeCapability compute_capability(at::Device device) {  // cudaDevAttrComputeCapability…
  return {.major = attribute_of_gpu(device, 75), .minor = attribute_of_gpu(device, 76)};
}

int multiprocessors(at::Device device) { return attribute_of_gpu(device, 16); }  // cudaDevAttrMultiProcessorCount

std::string gpu_name(at::Device device) {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);  // which CUDA has loaded before
  if (driver == nullptr) return "";
  const auto get = reinterpret_cast<int (*)(char*, int, int)>(dlsym(driver, "cuDeviceGetName"));
  char name[256] = "";
  return get != nullptr && get(name, sizeof name - 1, device.index()) == 0 ? name : "";
}

namespace {

constexpr std::string_view no_memory =
    "the GPU's memory is too small for this: lower training.micro_batch_size, or the number or length of texts that "
    "are "
    "made at once; end other programs on the GPU, which nvidia-smi lists; or compute on the CPU (runtime.device: cpu, "
    "--device cpu)";
constexpr std::string_view old_driver =
    "the NVIDIA driver is too old for CUDA 13: install driver 580 or later, or compute on the CPU (runtime.device: "
    "cpu, "
    "--device cpu)";
constexpr std::string_view other_gpu =
    "what was to run is not compiled for this GPU, whose compute capability inkling-doctor shows: set runtime.kernels: "
    "reference, or compute on the CPU (runtime.device: cpu, --device cpu)";
constexpr std::string_view not_free =
    "the GPU cannot be used now, because another program holds it alone (nvidia-smi lists them) or its driver is not "
    "ready: try again, or compute on the CPU (runtime.device: cpu, --device cpu)";
constexpr std::string_view lost_gpu =
    "the GPU failed, and what it held is lost: run the same command again, with which a training run goes on from its "
    "last checkpoint. Where it happens again, look for Xid in the system's log, and compute on the CPU "
    "(runtime.device: cpu, --device cpu)";
constexpr std::string_view no_way_between =
    "the ranks' GPUs have lost each other: run the same command again; NCCL_DEBUG=INFO shows more";
constexpr std::string_view refused_launch =
    "the GPU refused to run something: set runtime.kernels: reference, with which LibTorch's operations compute, or "
    "compute on the CPU (runtime.device: cpu, --device cpu)";

// Words of an error's text and what it means; the first that fits counts. They are what cudaGetErrorString() returns,
// cuBLAS's and cuDNN's names of states, and LibTorch's own words.
constexpr std::pair<std::string_view, std::string_view> gpu_errors[] = {
    {"out of memory", no_memory},
    {"_STATUS_ALLOC_FAILED", no_memory},
    {"CUBLAS_STATUS_NOT_INITIALIZED", no_memory},  // nearly always it has no room for memory of its own
    {"driver version is insufficient", old_driver},
    {"driver on your system is too old", old_driver},
    {"unsupported toolchain", old_driver},  // the provided PTX was compiled with it
    {"unsupported display driver / cuda driver combination", old_driver},
    {"forward compatibility was attempted on non supported HW", old_driver},
    {"no kernel image is available", other_gpu},
    {"device kernel image is invalid", other_gpu},
    {"CUBLAS_STATUS_ARCH_MISMATCH", other_gpu},
    {"busy or unavailable", not_free},
    {"no CUDA-capable device is detected", not_free},
    {"system not yet initialized", not_free},
    {"initialization error", not_free},
    {"uncorrectable ECC error", lost_gpu},
    {"uncorrectable NVLink error", lost_gpu},
    {"unspecified launch failure", lost_gpu},
    {"launch timed out", lost_gpu},
    {"hardware stack error", lost_gpu},
    {"CUDA error: unknown error", lost_gpu},
    {"_STATUS_EXECUTION_FAILED", lost_gpu},
    {"too many resources requested for launch", refused_launch},
    {"invalid configuration argument", refused_launch},
    {"invalid device function", refused_launch},
    {"NCCL ", no_way_between},
};

bool speaks_of_gpu(std::string_view text) {
  for (const std::string_view name : {"CUDA", "CUBLAS", "CUDNN", "GPU", "NCCL"}) {
    if (text.find(name) != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace

std::optional<Error> explain_gpu_error(std::string_view what) {
  std::string_view text = what.substr(0, what.find('\n'));  // behind it come advice to programmers and a stack trace
  if (!speaks_of_gpu(text)) return std::nullopt;
  text = text.substr(0, text.find(". GPU "));  // LibTorch's account of a GPU's memory
  for (const auto& [words, meaning] : gpu_errors) {
    if (text.find(words) != std::string_view::npos) return Error::environment(str(meaning, " (", text, ")"));
  }
  return std::nullopt;
}

bool is_lack_of_memory(const std::exception& error) {
  if (dynamic_cast<const OutOfMemory*>(&error) != nullptr || dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
      dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) {
    return true;
  }
  const auto of_gpu = explain_gpu_error(error.what());
  return of_gpu && of_gpu->message().starts_with(no_memory);
}

bool computes_with_threads(at::Device device) { return device.is_cpu(); }

bool reports_lack_of_memory(at::Device device) { return !device.is_cpu(); }

std::uint64_t held_bytes(at::Device device) {
  if (device.is_cpu()) return cpu_memory().max_held;
  const auto statistics = c10::getDeviceAllocator(device.type())->getDeviceStats(device.index());
  return static_cast<std::uint64_t>(statistics.reserved_bytes[0].peak);
}

void give_back_memory(at::Device device) {
  if (device.is_cpu()) return give_back_cpu_memory();
  synchronize(device);
  c10::DeviceAllocator* const allocator = c10::getDeviceAllocator(device.type());
  allocator->emptyCache();
  allocator->resetPeakStats(device.index());
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
