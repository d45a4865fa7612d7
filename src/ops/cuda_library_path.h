// Where the CUDA half of the fused operations is looked for; ops/cuda_library.h says what it holds.
#pragma once

#include <filesystem>

namespace inkling {

// libinkling_cuda.so beside the program that runs, whether it is there or not.
std::filesystem::path cuda_library_path();

}  // namespace inkling
