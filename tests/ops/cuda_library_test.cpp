// The library of the CUDA half is whole: everything it needs is found when it is loaded, on a machine without a GPU
// too.
#include "ops/cuda_library.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace inkling {
namespace {

TEST(CudaLibrary, IsLoadedWithEverythingItNeeds) {
  const std::filesystem::path path = std::filesystem::path(INKLING_BIN_DIR) / "libinkling_cuda.so";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "built without CUDA";
  void* const file = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(file, nullptr) << dlerror();
  void* const entry = dlsym(file, "inkling_cuda_library");
  ASSERT_NE(entry, nullptr);
  const CudaLibrary& library = reinterpret_cast<const CudaLibrary& (*)()>(entry)();
  EXPECT_NE(library.multiply, nullptr);
  EXPECT_NE(library.record, nullptr);
  EXPECT_NE(library.float32.layer_norm_forward, nullptr);
  EXPECT_NE(library.bfloat16.attend_cached, nullptr);
}

TEST(CudaLibrary, IsNoneOnTheCpu) { EXPECT_EQ(cuda_library(at::Tensor()), nullptr); }

}  // namespace
}  // namespace inkling
