#include "tests/oracle/tolerances.h"
#include <ATen/Parallel.h>

#include "runtime/device.h"
#include "tests/cuda_first.h"
#include "tests/oracle/tensors.h"

namespace inkling::oracle {

void OnEverySetting::SetUp() {
  const bool own = setting().backend == Setting::own;
  RuntimeConfig config = {.dtype = setting().dtype == at::kFloat ? Dtype::float32 : Dtype::bfloat16, .threads = 3};
  config.device = {.cuda = at::Device(setting().device).is_cuda()};
  if (fused() && own) config.kernels = Kernels::fused;
  if (config.device->cuda) INKLING_NEEDS_GPU(why_no_cuda());
  resolve_runtime(config, Use::inference);
  if (setting().backend == Setting::declining) other_.emplace(declining_backend());
  if (is_emulated(setting())) other_.emplace(emulated_backend(setting().backend == Setting::emulated));
}

double OnEverySetting::tolerance(const Roundings& roundings) const {
  const bool weights_alone = fused() && !on_gpu();  // of bfloat16, on the CPU, for inference
  const bool in_float32 = setting().dtype == at::kFloat || weights_alone;
  return rounding_error(roundings, in_float32 ? float32_roundoff : bfloat16_roundoff);
}

void OnEverySetting::TearDown() { other_.reset(); }

Runtime OnEverySetting::runtime() const {
  return {.device = at::Device(setting().device), .dtype = setting().dtype, .kernels = setting().kernels, .threads = 3};
}

Pass OnEverySetting::pass(double dropout, std::uint64_t key) const {
  return {.backend = backend(), .training = training(dropout, key)};
}

TrainingPass OnEverySetting::training(double dropout, std::uint64_t key) const {
  return {.dropout = dropout, .dropout_key = key_on(options().device(), key)};
}

at::TensorOptions OnEverySetting::options() const {
  return at::TensorOptions().device(at::Device(setting().device)).dtype(setting().dtype);
}

}  // namespace inkling::oracle
