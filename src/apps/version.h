// What --version prints: everything that a bug report has to say about the program and the machine.
#pragma once

#include <string>

#include "base/strings.h"

#if __has_include("backend/choose.h")  // programs that link the floors above LibTorch
#define INKLING_HAS_TORCH
#include <torch/headeronly/version.h>

#include "backend/choose.h"
#include "kernels/cpu_kernels.h"
#endif

namespace inkling {

inline std::string version_text(const std::string& program) {
  const std::string first = str(program, " ", INKLING_VERSION, "\n");
#ifdef INKLING_HAS_TORCH
  const std::filesystem::path cuda = cuda_library_path();
  std::error_code ignored;
  return str(first, "LibTorch: ", TORCH_VERSION, "\n", "CUDA half: ",
             std::filesystem::exists(cuda, ignored) ? cuda.string() : str("none, there is no ", cuda.string()), "\n",
             "instruction set: ", cpu_kernels().name, "\n");
#else
  return first + "LibTorch: not needed\n";
#endif
}

}  // namespace inkling
