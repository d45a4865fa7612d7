#include "backend/choose.h"

#include <dlfcn.h>

#include "backend/cpu_backend.h"
#include "base/error.h"
#include "base/strings.h"

namespace inkling {
namespace {

const Backend* emulated = nullptr;

const Backend& load_cuda_library() {
  void* const file = dlopen(cuda_library_path().c_str(), RTLD_NOW | RTLD_GLOBAL);
  void* const entry = file == nullptr ? nullptr : dlsym(file, "inkling_cuda_backend");
  if (entry == nullptr) {
    const char* const reason = dlerror();
    throw Error::environment(str("runtime.kernels: fused on a GPU needs libinkling_cuda.so, which cannot be loaded (",
                                 reason == nullptr ? "no reason given" : reason,
                                 "); build with INKLING_CUDA=ON, or set runtime.kernels: reference"));
  }
  return reinterpret_cast<const Backend& (*)()>(entry)();
}

}  // namespace

const Backend& choose_backend(const Runtime& runtime) {
  if (runtime.kernels == Kernels::reference) return composed_backend(emulated != nullptr || !runtime.device.is_cpu());
  if (emulated != nullptr) return *emulated;
  if (runtime.device.is_cpu()) return cpu_backend();
  static const Backend& on_gpu = load_cuda_library();
  return on_gpu;
}

void emulate_cuda_library(const Backend* backend) { emulated = backend; }

}  // namespace inkling
