#include "runtime/device.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <stdexcept>

#include "base/error.h"
#include "base/thread_choice.h"
#include "runtime/cpu_memory.h"
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

TEST(Runtime, FusedKernelsAreOnlyTakenByGpusThatHaveThem) {
  EXPECT_EQ(kernels_on_gpu({}, {9, 0}, true), Kernels::fused);
  EXPECT_EQ(kernels_on_gpu({}, {9, 0}, false), Kernels::reference);
  EXPECT_EQ(kernels_on_gpu({}, {7, 5}, true), Kernels::reference);
  EXPECT_EQ(kernels_on_gpu(Kernels::reference, {7, 5}, true), Kernels::reference);
  EXPECT_EQ(kernels_on_gpu(Kernels::fused, {8, 0}, true), Kernels::fused);
  EXPECT_EQ(kernels_on_gpu(Kernels::fused, {}, true), Kernels::fused) << "the GPU does not say what it is";
  try {
    kernels_on_gpu(Kernels::fused, {7, 5}, true);
    FAIL() << "a GPU was given kernels that it cannot run";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::environment);
    for (const char* words : {"compute capability 8.0", "this one has 7.5", "auto or reference"}) {
      EXPECT_NE(error.message().find(words), std::string::npos) << error.message();
    }
  }
}

// As LibTorch 2.11, CUDA 13 and our own launches word them.
TEST(GpuErrors, AreTheEnvironmentsAndSayWhatToDo) {
  const std::pair<const char*, const char*> known[] = {
      {"CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 7.92 GiB of which 5.00 MiB is "
       "free. Including non-PyTorch memory, this process has 7.90 GiB memory in use.",
       "training.micro_batch_size"},
      {"CUDA error: out of memory\nSearch for `cudaErrorMemoryAllocation' in https://docs.nvidia.com/", "nvidia-smi"},
      {"CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", "runtime.device: cpu"},
      {"CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`", "memory is too small"},
      {"CUDA error: CUDA driver version is insufficient for CUDA runtime version\nSearch for ...", "580 or later"},
      {"The NVIDIA driver on your system is too old (found version 12080). Please update your GPU driver by ...",
       "580 or later"},
      {"CUDA error: the provided PTX was compiled with an unsupported toolchain.", "580 or later"},
      {"CUDA error: no kernel image is available for execution on the device\nCUDA kernel errors might be ...",
       "runtime.kernels: reference"},
      {"the GPU refused to run embedding_forward: no kernel image is available for execution on the device",
       "runtime.kernels: reference"},
      {"the GPU refused to run adamw: too many resources requested for launch", "runtime.kernels: reference"},
      {"CUDA error: invalid configuration argument", "runtime.kernels: reference"},
      {"CUDA error: CUDA-capable device(s) is/are busy or unavailable", "another program holds it"},
      {"CUDA error: uncorrectable ECC error encountered", "last checkpoint"},
      {"the GPU refused to run norm_forward: unspecified launch failure", "last checkpoint"},
      {"CUDA error: the launch timed out and was terminated", "last checkpoint"},
      {"cublasLt failed to multiply matrices: CUBLAS_STATUS_EXECUTION_FAILED", "last checkpoint"},
      {"NCCL error in: NCCLUtils.cpp:93, unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version "
       "2.28.9\nncclSystemError: ...",
       "the same command again"},
      {"NCCL Error 2: unhandled system error", "the same command again"}};
  for (const auto& [text, advice] : known) {
    const auto error = explain_gpu_error(text);
    ASSERT_TRUE(error.has_value()) << text;
    EXPECT_EQ(error->kind(), ErrorKind::environment);
    EXPECT_NE(error->message().find(advice), std::string::npos) << error->message();
    EXPECT_EQ(error->message().find('\n'), std::string::npos) << error->message();
  }
  EXPECT_NE(explain_gpu_error(known[0].first)->message().find("(CUDA out of memory. Tried to allocate 20.00 MiB)"),
            std::string::npos);
}

TEST(GpuErrors, ADefectStaysAnInternalError) {
  for (const char* text : {"CUDA error: an illegal memory access was encountered\nSearch for ...",
                           "CUDA error: device-side assert triggered", "CUDA error: misaligned address",
                           "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)", "out of memory", ""}) {
    EXPECT_FALSE(explain_gpu_error(text).has_value()) << text;
  }
}

TEST(GpuErrors, LackOfMemoryIsKnownByItsTypeOrItsText) {
  EXPECT_TRUE(is_lack_of_memory(std::bad_alloc()));
  EXPECT_TRUE(is_lack_of_memory(OutOfMemory(ErrorKind::environment, "no memory for a tensor")));
  EXPECT_TRUE(is_lack_of_memory(c10::OutOfMemoryError({__func__, __FILE__, __LINE__}, "any text")));
  EXPECT_TRUE(is_lack_of_memory(std::runtime_error("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling ...")));
  EXPECT_FALSE(is_lack_of_memory(std::runtime_error("CUDA error: uncorrectable ECC error encountered")));
  EXPECT_FALSE(is_lack_of_memory(Error::input("training.batch_size is 0")));
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
