// Which device, dtype, kernels and threads a run uses. Every `auto` under runtime: is resolved here, once.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "config/config.h"
#include "config/resume_policy.h"
#include "runtime/ranks.h"

namespace inkling {

// Training needs gradients; inference, and so generation, does not.
enum class Use { training, inference };

struct Runtime {
  at::Device device = at::kCPU;
  at::ScalarType dtype = at::kFloat;  // of the weights that the math reads; master weights are always float32
  Kernels kernels = Kernels::fused;
  int threads = 1;
  WorkSplit split = WorkSplit::products;  // what of a training step is shared out over the threads
  std::string thread_limit = {};  // what lets `auto` take no more (base/thread_choice.h), where they compute; or ""
  bool deterministic = true;
  Ranks ranks = {};  // that train together, of which this is one
  std::int64_t scoring_bytes =
      0;  // that a batch of an evaluation may take in all ranks (evaluate/score.h); 0: not settled

  std::string device_name() const;  // "cpu, 2 threads", "cuda:0"
  std::string dtype_name() const;   // "float32", "bfloat16"
};

// Says why no NVIDIA GPU can be used on this machine; empty where one can. The first call loads LibTorch's CUDA half. A
// process that may use a GPU must call it before its first backward pass on any device, because autograd counts the
// devices at that moment only.
const std::string& why_no_cuda();

// Returns the path of libinkling_cuda.so, the fused kernels for GPUs, beside the program that runs, whether the file is
// there or not.
std::filesystem::path cuda_library_path();

// The compute capability of a GPU: 9 and 0 for Hopper. Zeros where CUDA does not say, or is not loaded.
struct ComputeCapability {
  int major = 0, minor = 0;
};
ComputeCapability compute_capability(at::Device device);

// How many multiprocessors a GPU has; 0 where CUDA does not say, or is not loaded.
int multiprocessors(at::Device device);

// Whether that library is compiled for GPUs of this compute capability, by its first number: for Ampere and later.
constexpr bool has_fused_kernels(int capability) { return capability >= 8; }

// Returns `wanted`, or what `auto` means on a GPU of this compute capability: fused where the library is compiled for
// it and there. Throws Error environment where fused is asked for and the library is compiled for later GPUs only.
Kernels kernels_on_gpu(const std::optional<Kernels>& wanted, ComputeCapability capability, bool has_library);

// Returns the dtype that `auto` means on a GPU, from the first number of its compute capability: bfloat16 from 8
// (Ampere) on. Older GPUs accept bfloat16 too, but emulate it, which is slower than float32.
at::ScalarType fastest_dtype(int capability);

// Resolves `auto`; for a GPU it loads LibTorch's CUDA half. Throws Error environment if the device asked for is not
// available, and Error input if the settings do not go together.
Runtime choose_runtime(const RuntimeConfig& config, Use use = Use::training);

// Returns the kernels that a run on such a device began with, or what `auto` means here where they are missing. Throws
// as choose_runtime() does.
Kernels kernels_as_before(Kernels before, RuntimeConfig config);

// Returns a stream of a GPU for somebody's work alone, because graphs cannot be recorded on the default one; none of
// the CPU.
std::optional<c10::Stream> own_stream(at::Device device);

// For a program: returns choose_runtime(), and sets for good what such a runtime wants of the process: LibTorch's
// thread count and determinism, that tiny numbers become 0, and on a GPU this thread's device and its own stream. (The
// library does so for the time of a call: library/core.cpp.)
Runtime resolve_runtime(const RuntimeConfig& config, Use use = Use::training);

// LibTorch's switches of determinism, which hold for the whole process.
struct Determinism {
  bool algorithms = false, only_warn = false, fill = false, cudnn = false;
};
Determinism determinism();
void set_determinism(const Determinism& switches);
Determinism determinism_of(const Runtime& runtime);

// Returns what a checkpoint keeps of it, so that a resumed run uses the same, without the micro-batch size.
Resolved resolved_from(const Runtime& runtime);

void synchronize(at::Device device);  // waits for a GPU; does nothing on the CPU

// Seeds the generator of LibTorch's own dropout on that device, which fused attention on a GPU draws from.
void seed_generator(at::Device device, std::uint64_t seed);

// What memory a device has, what this process holds of it, and how fast the device is.

struct DeviceMemory {
  std::uint64_t free = 0, total = 0;  // bytes
};

// Returns the memory of a GPU; none for the CPU, where train/resources asks the system.
std::optional<DeviceMemory> device_memory(at::Device device);

// "NVIDIA H100 80GB HBM3", as the driver calls a GPU; "" where it does not say.
std::string gpu_name(at::Device device);

// Returns what is wrong and what to do, as an Error environment, for the text of an error that CUDA, one of its
// libraries or LibTorch reports of a GPU: it lacks memory, its driver is too old, it refuses a launch, it was lost.
// None for every other text, and for what only a defect of a program causes, as an illegal memory access.
std::optional<Error> explain_gpu_error(std::string_view what);

// Whether an error says that memory is lacking, main memory or a GPU's.
bool is_lack_of_memory(const std::exception& error);

// Whether the host's threads compute there, instead of only queueing work.
bool computes_with_threads(at::Device device);

// Whether a tensor that does not fit is an error there. On the CPU the system ends the process instead.
bool reports_lack_of_memory(at::Device device);

// Returns the most bytes that tensors on `device` held at any time, with blocks that are kept for later. On the CPU it
// counts from reuse_cpu_memory() on.
std::uint64_t held_bytes(at::Device device);

// Gives what is kept for later on `device` back to it, and counts held_bytes() from now on. Call it when what filled
// the memory is gone, and something else is to have room. Waits for a GPU.
void give_back_memory(at::Device device);

// Returns the device's peak in floating-point operations per second for dense bfloat16 products; 0 if unknown.
double peak_flops(at::Device device, at::ScalarType dtype);

}  // namespace inkling
