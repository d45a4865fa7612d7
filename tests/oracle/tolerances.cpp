#include "tests/oracle/tolerances.h"

#include <ATen/Parallel.h>
#include <ATen/ops/full.h>

#include "base/error.h"
#include "model/device.h"

namespace inkling::oracle {

void OnEverySetting::SetUp() {
  RuntimeConfig runtime;
  runtime.device = setting().device;
  runtime.dtype = setting().dtype == at::kFloat ? "float32" : "bfloat16";
  runtime.kernels = setting().kernels == Kernels::fused && setting().gpu == Setting::real ? "fused" : "auto";
  runtime.threads = 3;
  try {
    resolve_runtime(runtime, Use::inference);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::environment) throw;
    GTEST_SKIP() << error.message();
  }
  if (setting().gpu != Setting::real) gpu_.emplace(setting().gpu == Setting::emulated);
}

void OnEverySetting::TearDown() { gpu_.reset(); }

Context OnEverySetting::with_dropout(double probability, std::uint64_t key) const {
  Context context{.kernels = setting().kernels, .dropout = probability, .dropout_key = key};
  if (fused() && on_gpu()) {
    context.device_dropout_key = at::full({1}, static_cast<std::int64_t>(key), options().dtype(at::kLong));
  }
  return context;
}

at::TensorOptions OnEverySetting::options() const {
  return at::TensorOptions().device(at::Device(setting().device)).dtype(setting().dtype);
}

}  // namespace inkling::oracle
