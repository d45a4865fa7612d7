#include "backend/choose.h"

#include <dlfcn.h>

#include <exception>
#include <filesystem>
#include <string_view>

#include "backend/cpu_backend.h"
#include "base/error.h"
#include "base/log.h"
#include "base/strings.h"

namespace inkling {
namespace {

const Backend* emulated = nullptr;

// Returns a function of the library. what: needs it; instead: what to do without.
void* of_cuda_library(const char* name, std::string_view what, std::string_view instead) {
  void* const file = dlopen(cuda_library_path().c_str(), RTLD_NOW | RTLD_GLOBAL);
  void* const entry = file == nullptr ? nullptr : dlsym(file, name);
  if (entry != nullptr) return entry;
  const char* const reason = dlerror();
  throw Error::environment(str(what, " needs libinkling_cuda.so, which cannot be loaded (",
                               reason == nullptr ? "no reason given" : reason, "); build with INKLING_CUDA=ON, or ",
                               instead));
}

const Backend& load_cuda_library() {
  void* const entry =
      of_cuda_library("inkling_cuda_backend", "runtime.kernels: fused on a GPU", "set runtime.kernels: reference");
  return reinterpret_cast<const Backend& (*)()>(entry)();
}

const Backend& cuda_library() {
  static const Backend& loaded = load_cuda_library();
  return loaded;
}

// Where the library can be loaded and computes the same, its dropout saves the reference model most of a small step.
Backend reference_on_gpu(at::Device device) {
  Backend backend = composed_backend(true);
  if (!has_fused_kernels(compute_capability(device).major) || !std::filesystem::exists(cuda_library_path())) {
    return backend;
  }
  try {
    const Backend& fused = cuda_library();
    if (drops_as_specified(fused, device)) backend.dropout = fused.dropout;
  } catch (const std::exception& error) {  // the reference model is there for machines where the kernels fail
    log_info(str("the reference model's dropout is LibTorch's, because the fused kernel fails: ", error.what()));
  }
  return backend;
}

}  // namespace

const Backend& choose_backend(const Runtime& runtime) {
  const bool is_reference = runtime.kernels == Kernels::reference;
  if (emulated != nullptr) return is_reference ? composed_backend(true) : *emulated;
  if (runtime.device.is_cpu()) return is_reference ? composed_backend(false) : cpu_backend();
  if (!is_reference) return cuda_library();
  static const Backend on_gpu = reference_on_gpu(runtime.device);
  return on_gpu;
}

void meet_on_gpus(const Runtime& runtime) {
  if (runtime.ranks.is_alone() || runtime.device.is_cpu()) return;
  void* const entry =
      of_cuda_library("inkling_cuda_ranks", "training with several ranks on GPUs", "start one rank alone");
  runtime.ranks.meet_on_gpus(runtime.device, [entry](const GpuMeeting& meeting) {
    GpuGroup group;
    reinterpret_cast<void (*)(const GpuMeeting&, GpuGroup&)>(entry)(meeting, group);
    return group;
  });
}

void emulate_cuda_library(const Backend* backend) { emulated = backend; }

}  // namespace inkling
