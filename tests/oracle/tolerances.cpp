#include "tests/oracle/tolerances.h"

#include <ATen/Parallel.h>
#include <ATen/ops/full.h>

#include "model/device.h"
#include "tests/cuda_first.h"
#include "tests/needs_gpu.h"

namespace inkling::oracle {

void OnEverySetting::SetUp() {
  RuntimeConfig runtime;
  const at::Device device(setting().device);
  runtime.device = DeviceChoice{.cuda = device.is_cuda(), .index = {}};
  runtime.dtype = setting().dtype == at::kFloat ? Dtype::float32 : Dtype::bfloat16;
  if (setting().kernels == Kernels::fused && setting().gpu == Setting::real) runtime.kernels = Kernels::fused;
  runtime.threads = 3;
  if (device.is_cuda()) INKLING_NEEDS_GPU(why_no_cuda());
  resolve_runtime(runtime, Use::inference);
  if (setting().gpu != Setting::real) gpu_.emplace(setting().gpu == Setting::emulated);
}

double OnEverySetting::tolerance(const Roundings& roundings) const {
  const bool weights_alone = fused() && !on_gpu();  // of bfloat16, on the CPU, for inference
  const bool in_float32 = setting().dtype == at::kFloat || weights_alone;
  return rounding_error(roundings, in_float32 ? float32_roundoff : bfloat16_roundoff);
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
