#include "tests/oracle/tolerances.h"

#include <ATen/Parallel.h>

#include "base/error.h"
#include "model/device.h"

namespace inkling::oracle {

void OnEverySetting::SetUp() {
  RuntimeConfig runtime;
  runtime.device = setting().device;
  runtime.dtype = setting().dtype == at::kFloat ? "float32" : "bfloat16";
  runtime.threads = 3;
  try {
    resolve_runtime(runtime);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::environment) throw;
    GTEST_SKIP() << error.message();
  }
}

at::TensorOptions OnEverySetting::options() const {
  return at::TensorOptions().device(at::Device(setting().device)).dtype(setting().dtype);
}

}  // namespace inkling::oracle
