// The library of the CUDA half is whole: everything it needs is found when it is loaded, on a machine without a GPU
// too.
#include "ops/cuda_library.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/cuda_first.h"
#include "tests/needs_gpu.h"
#include "tests/temporary_folder.h"

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

class Recording : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    INKLING_NEEDS_GPU(why_no_cuda());
    RuntimeConfig wanted;
    wanted.device = DeviceChoice{.cuda = true, .index = {}};
    resolve_runtime(wanted);
  }
};

// Reading a number waits for the GPU, which gives the recording up; the other error is none of the GPU's.
TEST_P(Recording, ThatThrowsLeavesTheNextOneAndItsMemoryAlone) {
  const at::Tensor in = at::full({1 << 20}, 1.0, at::Device(GetParam())), out = at::zeros_like(in);
  const CudaLibrary& library = *cuda_library(in);
  constexpr int family = 7;
  for (int round = 0; round < 2; ++round) {
    EXPECT_ANY_THROW(library.record(family, [&] { in.mul(2.0).sum().item<double>(); }));
    EXPECT_TRUE(error_of([&] {
      library.record(family, [&] {
        in.mul(2.0);
        throw Error::internal("none of the GPU's");
      });
    }));
    const at::Tensor beside = in.mul(3.0);  // not in the memory of a graph that is gone
    const auto replay = library.record(family, [&] { out.copy_(in.mul(2.0).add(1.0)); });
    replay();
    EXPECT_EQ(out.sum().item<double>(), 3.0 * (1 << 20));
    EXPECT_EQ(beside.sum().item<double>(), 3.0 * (1 << 20));
    out.zero_();
  }
}

INSTANTIATE_TEST_SUITE_P(Cuda, Recording, testing::Values("cuda"));

}  // namespace
}  // namespace inkling
