#include "kernels/cpu_kernels.h"

#include <array>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/strings.h"

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

std::span<const std::string_view> compiled_instruction_sets() {
  static const std::array<std::string_view, 3> names = {avx512::kernels.name, avx2::kernels.name,
                                                        baseline::kernels.name};
  return names;
}

const CpuKernels& cpu_kernels_named(std::string_view name) {
  std::vector<std::string> names;
  for (const CpuKernels* kernels : all_cpu_kernels()) {
    if (kernels->name == name) return *kernels;
    names.emplace_back(kernels->name);
  }
  throw Error::environment(str("INKLING_INSTRUCTION_SET is ", quote(name), ", and this processor has ",
                               join(names, ", "), "; name one of these, or leave it out for the best"));
}

const CpuKernels& cpu_kernels() {
  static const CpuKernels& chosen = []() -> const CpuKernels& {
    const char* const name = std::getenv("INKLING_INSTRUCTION_SET");
    return name == nullptr || *name == '\0' ? *all_cpu_kernels().front() : cpu_kernels_named(name);
  }();
  return chosen;
}

}  // namespace inkling
