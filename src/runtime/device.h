// Which device, dtype, kernels and threads a run uses: every `auto` of runtime: resolved once.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "config/config.h"

namespace inkling {

// Training needs gradients; inference, and so generation, does not.
enum class Use { training, inference };

struct Runtime {
  at::Device device = at::kCPU;
  at::ScalarType dtype = at::kFloat;  // of the weights that the math reads; master weights are float32 always
  Kernels kernels = Kernels::fused;
  int threads = 1;
  bool deterministic = true;

  std::string device_name() const;  // "cpu, 2 threads", "cuda:0"
  std::string dtype_name() const;   // "float32", "bfloat16"
};

// The reason why no NVIDIA GPU can be used here; empty where one can. The first call loads LibTorch's CUDA half. In a
// process that may use a GPU it comes before the first backward pass on any device: autograd counts the devices once,
// then.
const std::string& why_no_cuda();

// What `auto` computes with on a GPU, by the first number of its compute capability: bfloat16 from 8 (Ampere) on. GPUs
// before it take bfloat16 too, and emulate it.
at::ScalarType fastest_dtype(int capability);

// Resolves `auto`, sets LibTorch's thread count and determinism, and for a GPU loads LibTorch's CUDA half; from then on
// this thread's work goes to a stream of its own, as graphs cannot be recorded on the default one.
// Error environment if the device asked for is not there; Error input if the settings do not go together.
Runtime resolve_runtime(const RuntimeConfig& config, Use use = Use::training);

// What a checkpoint keeps of it, so that a resumed run uses the same; but for the micro-batch size.
Resolved resolved_from(const Runtime& runtime);

void synchronize(at::Device device);  // waits for a GPU; nothing to do on the CPU

// Sets the generator that LibTorch's own dropout draws from on that device, which fused attention on a GPU uses.
void seed_generator(at::Device device, std::uint64_t seed);

// One per physical core that this process may run on.
int physical_cores();

}  // namespace inkling
