// What a test that needs a GPU does where there is none: it is skipped, saying why. Where a GPU is expected, because
// INKLING_EXPECT_CUDA=1 is in the environment, it fails instead: a skip there would pass for success.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <string_view>

namespace inkling {

inline bool gpu_is_expected() {
  const char* const expected = std::getenv("INKLING_EXPECT_CUDA");
  return expected != nullptr && std::string_view(expected) == "1";
}

// The GPU in software (tests/software_gpu/run).
inline bool is_on_software_gpu() { return std::getenv("SOFTWARE_GPU") != nullptr; }

}  // namespace inkling

#define INKLING_NEEDS_SOFTWARE_GPU() \
  if (!::inkling::is_on_software_gpu()) GTEST_SKIP() << "this is not the GPU in software (tests/software_gpu/run)"

// In a test or its SetUp(). `why_not`: why no GPU can be used, empty where one can.
#define INKLING_NEEDS_GPU(why_not)                                                      \
  do {                                                                                  \
    const std::string& reason_for_no_gpu = why_not; /* a temporary lives as long */     \
    if (reason_for_no_gpu.empty()) break;                                               \
    if (::inkling::gpu_is_expected())                                                   \
      GTEST_FAIL() << "a GPU is expected (INKLING_EXPECT_CUDA): " << reason_for_no_gpu; \
    GTEST_SKIP() << reason_for_no_gpu;                                                  \
  } while (false)
