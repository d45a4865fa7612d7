// Included by tests that may run on a GPU: before a program's first test, LibTorch's CUDA half is loaded if there is a
// GPU. Tests on the CPU make backward passes, and autograd counts the devices at the first one.
#pragma once

#include <gtest/gtest.h>

#include "runtime/device.h"

namespace inkling {

struct CudaFirst : testing::Environment {
  void SetUp() override { why_no_cuda(); }
};

inline testing::Environment* const cuda_first = testing::AddGlobalTestEnvironment(new CudaFirst);

}  // namespace inkling
