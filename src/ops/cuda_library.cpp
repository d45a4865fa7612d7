#include "ops/cuda_library.h"

#include <ATen/ops/empty.h>
#include <dlfcn.h>

#include "base/error.h"
#include "base/strings.h"
#include "ops/cuda_library_path.h"

namespace inkling {
namespace {

const CudaLibrary* emulated = nullptr;

const CudaLibrary& load() {
  void* const file = dlopen(cuda_library_path().c_str(), RTLD_NOW | RTLD_GLOBAL);
  void* const entry = file == nullptr ? nullptr : dlsym(file, "inkling_cuda_library");
  if (entry == nullptr) {
    const char* const reason = dlerror();
    throw Error::environment(str("runtime.kernels: fused on a GPU needs libinkling_cuda.so, which cannot be loaded (",
                                 reason == nullptr ? "no reason given" : reason,
                                 "); build with INKLING_CUDA=ON, or set runtime.kernels: reference"));
  }
  return reinterpret_cast<const CudaLibrary& (*)()>(entry)();
}

}  // namespace

std::filesystem::path cuda_library_path() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path() / "libinkling_cuda.so";
}

const CudaLibrary* cuda_library(const at::Tensor& x) {
  if (emulated != nullptr) return emulated;
  if (!x.defined() || !x.is_cuda()) return nullptr;
  static const CudaLibrary& library = load();
  return &library;
}

void emulate_cuda_library(const CudaLibrary* library) { emulated = library; }

void multiply(const CudaLibrary& library, const at::Tensor& a, const at::Tensor& b, const at::Tensor& out,
              const Epilogue& epilogue) {
  if (library.multiply(a, b, out, epilogue)) return;
  throw Error::internal(str("cublasLt has no product of ", a.size(0), " x ", a.size(1), " and ", b.size(0), " x ",
                            b.size(1), " for this GPU; set runtime.kernels: reference"));
}

at::Tensor cuda_scratch(const at::Tensor& x, std::int64_t count) {
  return at::empty({count}, x.options().dtype(at::kFloat).requires_grad(false));
}

}  // namespace inkling
