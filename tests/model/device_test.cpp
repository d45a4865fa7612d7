#include "model/device.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>

#include "base/error.h"
#include "tests/needs_gpu.h"

namespace inkling {
namespace {

constexpr std::nullopt_t automatic = std::nullopt;
constexpr DeviceChoice cpu;

RuntimeConfig runtime_config(std::optional<DeviceChoice> device, std::optional<Dtype> dtype,
                             std::optional<Kernels> kernels) {
  RuntimeConfig config;
  config.device = device;
  config.dtype = dtype;
  config.kernels = kernels;
  return config;
}

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
  const Runtime runtime = resolve_runtime(runtime_config(cpu, automatic, automatic));
  EXPECT_TRUE(runtime.device.is_cpu());
  EXPECT_EQ(runtime.dtype, at::kFloat);
  EXPECT_EQ(runtime.kernels, Kernels::fused);
  EXPECT_EQ(resolve_runtime(runtime_config(cpu, Dtype::float32, Kernels::reference)).kernels, Kernels::reference);
  EXPECT_EQ(resolve_runtime(runtime_config(cpu, Dtype::bfloat16, automatic)).kernels, Kernels::reference);
}

TEST(Runtime, UsesTheThreadsAskedForOrOnePerCore) {
  RuntimeConfig config = runtime_config(cpu, automatic, automatic);
  config.threads = 3;
  EXPECT_EQ(resolve_runtime(config).threads, 3);
  EXPECT_EQ(at::get_num_threads(), 3);
  config.threads.reset();
  EXPECT_EQ(resolve_runtime(config).threads, physical_cores());
  EXPECT_GE(physical_cores(), 1);
}

TEST(Runtime, ResolvedSettingsResolveToTheSame) {
  const RuntimeConfig config = runtime_config(automatic, automatic, automatic);
  const Runtime runtime = resolve_runtime(config);
  const Resolved resolved = resolved_config(config, runtime);
  RuntimeConfig wanted = runtime_config(resolved.device, resolved.dtype, resolved.kernels);
  wanted.threads = resolved.threads;
  const Runtime again = resolve_runtime(wanted);
  EXPECT_EQ(again.device, runtime.device);
  EXPECT_EQ(again.dtype, runtime.dtype);
  EXPECT_EQ(again.kernels, runtime.kernels);
  EXPECT_EQ(again.threads, runtime.threads);
}

TEST(Runtime, InferenceOnTheCpuReadsBfloat16WeightsWithTheFusedKernels) {
  const Runtime runtime = resolve_runtime(runtime_config(cpu, Dtype::bfloat16, automatic), Use::inference);
  EXPECT_EQ(runtime.kernels, Kernels::fused);
  EXPECT_EQ(runtime.dtype, at::kBFloat16);
  EXPECT_EQ(runtime.activation_dtype(), at::kFloat);
}

TEST(Runtime, TrainingWithFusedKernelsInBfloat16IsRefusedSayingWhatToWrite) {
  const Error error = refusal(runtime_config(cpu, Dtype::bfloat16, Kernels::fused));
  EXPECT_EQ(error.kind(), ErrorKind::input);
  EXPECT_NE(error.message().find("set runtime.kernels to auto or reference"), std::string::npos) << error.message();
}

TEST(Runtime, AGpuThatIsNotThereIsTheEnvironmentsFault) {
  const Error error = refusal(runtime_config(DeviceChoice{.cuda = true, .index = 99}, automatic, automatic));
  EXPECT_EQ(error.kind(), ErrorKind::environment);
  EXPECT_NE(error.message().find("runtime.device is cuda:99"), std::string::npos) << error.message();
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
  resolve_runtime(runtime_config(cpu, automatic, automatic));
  EXPECT_TRUE(at::globalContext().deterministicAlgorithms());
  EXPECT_FALSE(at::globalContext().deterministicFillUninitializedMemory());
}

}  // namespace
}  // namespace inkling
