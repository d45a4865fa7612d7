#include "runtime/device.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"
#include "base/thread_choice.h"
#include "tests/needs_gpu.h"

namespace inkling {
namespace {

constexpr DeviceChoice cpu = {};

// The error that resolve_runtime() answers with.
Error refusal(const RuntimeConfig& config) {
  try {
    resolve_runtime(config);
  } catch (const Error& error) {
    return error;
  }
  return Error::internal("resolve_runtime() refused nothing");
}

TEST(Runtime, TheCpuComputesInFloat32WithTheFusedKernelsUnlessToldOtherwise) {
  const Runtime automatic = resolve_runtime({.device = cpu});
  EXPECT_TRUE(automatic.device.is_cpu());
  EXPECT_EQ(automatic.dtype, at::kFloat);
  EXPECT_EQ(automatic.kernels, Kernels::fused);
  EXPECT_EQ(resolve_runtime({.device = cpu, .kernels = Kernels::reference}).kernels, Kernels::reference);
  EXPECT_EQ(resolve_runtime({.device = cpu, .dtype = Dtype::bfloat16}).kernels, Kernels::reference);
}

TEST(Runtime, UsesTheThreadsAskedForOrAsManyAsTheLimitsAllow) {
  EXPECT_EQ(resolve_runtime({.device = cpu, .threads = 3}).threads, 3);
  EXPECT_EQ(at::get_num_threads(), 3);
  EXPECT_EQ(resolve_runtime({.device = cpu}).threads,
            choose_threads(ThreadUse::arithmetic, find_thread_limits()).threads);
}

TEST(Runtime, AutoTakesNoMoreThreadsThanTheEnvironmentAllows) {
  const char* const before = std::getenv("OMP_NUM_THREADS");
  const std::string kept = before == nullptr ? "" : before;
  const int free = resolve_runtime({.device = cpu}).threads;
  setenv("OMP_NUM_THREADS", "1", 1);
  const Runtime runtime = resolve_runtime({.device = cpu});
  EXPECT_EQ(runtime.threads, 1);
  EXPECT_EQ(at::get_num_threads(), 1);
  if (free > 1) {
    EXPECT_EQ(runtime.thread_limit, "OMP_NUM_THREADS is 1");
  }
  EXPECT_EQ(resolve_runtime({.device = cpu, .threads = 3}).threads, 3) << "what a person says counts more";
  before == nullptr ? unsetenv("OMP_NUM_THREADS") : setenv("OMP_NUM_THREADS", kept.c_str(), 1);
}

TEST(Runtime, ResolvedSettingsResolveToTheSame) {
  const Runtime runtime = resolve_runtime({});
  const Resolved resolved = resolved_from(runtime);
  const Runtime again = resolve_runtime({.device = resolved.device,
                                         .dtype = resolved.dtype,
                                         .threads = resolved.threads,
                                         .kernels = resolved.kernels,
                                         .deterministic = resolved.deterministic});
  EXPECT_EQ(again.device, runtime.device);
  EXPECT_EQ(again.dtype, runtime.dtype);
  EXPECT_EQ(again.kernels, runtime.kernels);
  EXPECT_EQ(again.threads, runtime.threads);
}

TEST(Runtime, InferenceOnTheCpuReadsBfloat16WeightsWithTheFusedKernels) {
  const Runtime runtime = resolve_runtime({.device = cpu, .dtype = Dtype::bfloat16}, Use::inference);
  EXPECT_EQ(runtime.kernels, Kernels::fused);
  EXPECT_EQ(runtime.dtype, at::kBFloat16);
}

TEST(Runtime, TrainingWithFusedKernelsInBfloat16IsRefusedSayingWhatToWrite) {
  const Error error = refusal({.device = cpu, .dtype = Dtype::bfloat16, .kernels = Kernels::fused});
  EXPECT_EQ(error.kind(), ErrorKind::input);
  EXPECT_NE(error.message().find("set runtime.kernels to auto or reference"), std::string::npos) << error.message();
}

TEST(Runtime, AGpuThatIsNotThereIsTheEnvironmentsFault) {
  const Error error = refusal({.device = DeviceChoice{.cuda = true, .index = 99}});
  EXPECT_EQ(error.kind(), ErrorKind::environment);
  EXPECT_NE(error.message().find("the device cuda:99"), std::string::npos) << error.message();
  EXPECT_NE(error.message().find(why_no_cuda()), std::string::npos) << error.message();
}

// GPUs before compute capability 8.0 emulate bfloat16.
TEST(Runtime, AGpuComputesInBfloat16WhereItHasIt) {
  EXPECT_EQ(fastest_dtype(7), at::kFloat);
  EXPECT_EQ(fastest_dtype(8), at::kBFloat16);
  EXPECT_EQ(fastest_dtype(12), at::kBFloat16);
  EXPECT_EQ(fastest_dtype(0), at::kFloat);  // unknown
}

void need_a_gpu() { INKLING_NEEDS_GPU("the library did not load"); }

TEST(NeedsGpu, WhereOneIsExpectedATestWithoutItFailsAndSaysWhy) {
  const char* const before = std::getenv("INKLING_EXPECT_CUDA");
  const std::string kept = before == nullptr ? "" : before;
  setenv("INKLING_EXPECT_CUDA", "1", 1);
  EXPECT_FATAL_FAILURE(need_a_gpu(), "the library did not load");
  setenv("INKLING_EXPECT_CUDA", kept.c_str(), 1);
}

// LibTorch's deterministic mode fills all new memory with NaN unless told not to: a whole pass for every tensor.
TEST(Runtime, DeterminismDoesNotFillMemoryThatIsAboutToBeWritten) {
  resolve_runtime({.device = cpu});
  EXPECT_TRUE(at::globalContext().deterministicAlgorithms());
  EXPECT_FALSE(at::globalContext().deterministicFillUninitializedMemory());
}

}  // namespace
}  // namespace inkling
