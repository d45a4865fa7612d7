// Where the operations and the model are tested: one table; and how far from the float64 oracle they may be there.
#pragma once

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "model/model.h"
#include "model/operations.h"
#include "tests/needs_gpu.h"
#include "tests/oracle/emulated_library.h"
#include "tests/oracle/rounding.h"

namespace inkling::oracle {

struct Setting {
  const char* name;  // as in the tests' names
  const char* device;
  at::ScalarType dtype;
  Kernels kernels;
  // Other backends on the CPU: one that declines what it may, so that it is composed; and a GPU's, emulated.
  enum { own, declining, emulated, emulated_without_epilogues } backend = own;
};

inline constexpr Setting cpu_settings[] = {
    {"cpu_float32_fused", "cpu", at::kFloat, Kernels::fused},
    {"cpu_float32_reference", "cpu", at::kFloat, Kernels::reference},
    {"cpu_bfloat16_reference", "cpu", at::kBFloat16, Kernels::reference},
};
inline constexpr Setting emulated_settings[] = {
    {"gpu_float32_fused", "cpu", at::kFloat, Kernels::fused, Setting::emulated},
    {"gpu_bfloat16_fused", "cpu", at::kBFloat16, Kernels::fused, Setting::emulated},
    {"gpu_bfloat16_fused_without_epilogues", "cpu", at::kBFloat16, Kernels::fused, Setting::emulated_without_epilogues},
};
inline constexpr Setting declining_settings[] = {
    {"cpu_float32_composed", "cpu", at::kFloat, Kernels::fused, Setting::declining},
};
inline constexpr Setting cuda_settings[] = {
    {"cuda_float32_fused", "cuda", at::kFloat, Kernels::fused},
    {"cuda_bfloat16_fused", "cuda", at::kBFloat16, Kernels::fused},
    {"cuda_float32_reference", "cuda", at::kFloat, Kernels::reference},
    {"cuda_bfloat16_reference", "cuda", at::kBFloat16, Kernels::reference},
};

// Weights in bfloat16, arithmetic in float32: the oracle computes with the same rounded weights. No gradients.
inline constexpr Setting inference_settings[] = {
    {"cpu_bfloat16_fused", "cpu", at::kBFloat16, Kernels::fused},
};

inline void PrintTo(const Setting& setting, std::ostream* out) { *out << setting.name; }

inline bool is_nightly() { return std::getenv("INKLING_NIGHTLY") != nullptr; }
inline bool is_fused(const Setting& setting) { return setting.kernels == Kernels::fused; }
inline bool is_emulated(const Setting& setting) { return setting.backend >= Setting::emulated; }
// Whether the numbers of dropout are ours everywhere. On a GPU FlashAttention draws its own.
inline bool numbers_are_ours(const Setting& setting) {
  return at::Device(setting.device).is_cpu() || !is_fused(setting) || setting.dtype == at::kFloat;
}

// Those of the rows that a test is about.
template <std::size_t count>
std::vector<Setting> rows_where(bool (*wanted)(const Setting&), const Setting (&rows)[count]) {
  std::vector<Setting> chosen;
  std::copy_if(std::begin(rows), std::end(rows), std::back_inserter(chosen), wanted);
  return chosen;
}

// A test over the table: skips what this machine cannot run. Runs with three threads, so that work is split unevenly.
class OnEverySetting : public testing::TestWithParam<Setting> {
 protected:
  void SetUp() override;
  const Setting& setting() const { return GetParam(); }
  void TearDown() override;
  // How far oracle::error() may be from 0 by tests/oracle/rounding.h.
  double tolerance(const Roundings& roundings) const;
  Runtime runtime() const;
  const Backend& backend() const { return choose_backend(runtime()); }
  Pass pass(double dropout = 0.0, std::uint64_t key = 0) const;              // for operations
  TrainingPass training(double dropout = 0.0, std::uint64_t key = 0) const;  // for models
  at::TensorOptions options() const;                                         // dtype and device
  bool fused() const { return is_fused(setting()); }
  bool on_gpu() const { return options().device().is_cuda() || is_emulated(setting()); }
  // Whether a GPU's threads take turns on the CPU, which takes its time: emulated kernels, and the GPU in software.
  bool threads_take_turns() const { return is_emulated(setting()) || (on_gpu() && is_on_software_gpu()); }
  bool numbers_are_ours() const { return oracle::numbers_are_ours(setting()); }

 private:
  std::optional<OtherBackend> other_;
};

}  // namespace inkling::oracle

// Tests of the instantiation Cuda get the label cuda.
#define INKLING_ON_EVERY_SETTING(Suite) \
  INKLING_ON_SETTINGS_WHERE(Suite, [](const ::inkling::oracle::Setting&) { return true; })
#define INKLING_ON_SETTINGS_WHERE(Suite, wanted)                                  \
  INKLING_ON_ROWS(Cpu, Suite, wanted, ::inkling::oracle::cpu_settings);           \
  INKLING_ON_ROWS(Emulated, Suite, wanted, ::inkling::oracle::emulated_settings); \
  INKLING_ON_ROWS(Cuda, Suite, wanted, ::inkling::oracle::cuda_settings)
#define INKLING_ON_ROWS(Rows, Suite, wanted, settings)                                                      \
  INSTANTIATE_TEST_SUITE_P(Rows, Suite, testing::ValuesIn(::inkling::oracle::rows_where(wanted, settings)), \
                           [](const auto& instance) { return std::string(instance.param.name); })
