// The library of the CUDA half is whole: everything it needs is found when it is loaded, on a machine without a GPU
// too.
#include "backend/choose.h"

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
  void* const entry = dlsym(file, "inkling_cuda_backend");
  ASSERT_NE(entry, nullptr);
  const Backend& backend = reinterpret_cast<const Backend& (*)()>(entry)();
  EXPECT_TRUE(backend.queues);
  EXPECT_NE(backend.record, nullptr);
  EXPECT_NE(backend.head, nullptr);
  EXPECT_NE(backend.draw, nullptr);
}

class Recording : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    INKLING_NEEDS_GPU(why_no_cuda());
    resolve_runtime({.device = DeviceChoice{.cuda = true}, .kernels = Kernels::fused});
  }
};

// Reading a number waits for the GPU, which gives the recording up; the other error is none of the GPU's.
TEST_P(Recording, ThatThrowsLeavesTheNextOneAndItsMemoryAlone) {
  const at::Tensor in = at::full({1 << 20}, 1.0, at::Device(GetParam())), out = at::zeros_like(in);
  const Backend& backend = choose_backend({.device = in.device()});
  constexpr int family = 7;
  for (int round = 0; round < 2; ++round) {
    EXPECT_ANY_THROW(backend.record(family, [&] { in.mul(2.0).sum().item<double>(); }));
    EXPECT_TRUE(error_of([&] {
      backend.record(family, [&] {
        in.mul(2.0);
        throw Error::internal("none of the GPU's");
      });
    }));
    const at::Tensor beside = in.mul(3.0);  // not in the memory of a graph that is gone
    const auto replay = backend.record(family, [&] { out.copy_(in.mul(2.0).add(1.0)); });
    replay();
    EXPECT_EQ(out.sum().item<double>(), 3.0 * (1 << 20));
    EXPECT_EQ(beside.sum().item<double>(), 3.0 * (1 << 20));
    out.zero_();
  }
}

TEST_P(Recording, IsDoneByTheFusedKernelsWhichAutoMeansOnAGpu) {
  EXPECT_EQ(choose_runtime({.device = DeviceChoice{.cuda = true}}).kernels, Kernels::fused);
}

INSTANTIATE_TEST_SUITE_P(Cuda, Recording, testing::Values("cuda"));

}  // namespace
}  // namespace inkling
