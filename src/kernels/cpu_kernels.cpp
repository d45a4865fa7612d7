#include "kernels/cpu_kernels.h"

#include <vector>

namespace inkling {

namespace avx512 {
extern const CpuKernels kernels;
}
namespace avx2 {
extern const CpuKernels kernels;
}
namespace baseline {
extern const CpuKernels kernels;
}

std::span<const CpuKernels* const> all_cpu_kernels() {
  static const std::vector<const CpuKernels*> runnable = [] {
    std::vector<const CpuKernels*> found;
    const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
      found.push_back(&avx512::kernels);
    }
    if (has_avx2) found.push_back(&avx2::kernels);
    found.push_back(&baseline::kernels);
    return found;
  }();
  return runnable;
}

const CpuKernels& cpu_kernels() { return *all_cpu_kernels().front(); }

}  // namespace inkling
