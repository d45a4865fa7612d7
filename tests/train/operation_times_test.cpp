// The times of operations that bench-step and bench-decode print.
#include "benchmarks/operation_times.h"

#include <ATen/ThreadLocalState.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <thread>

namespace inkling {
namespace {

TEST(OperationTimes, CountTheOperationsOfTheThreadThatObserves) {
  const OperationTimes observed;
  at::ones({2});
  EXPECT_EQ(observed.seconds().count("aten::ones"), 1u);
}

// As autograd does with the thread that computes backward passes on a GPU.
TEST(OperationTimes, CountThoseOfAThreadThatComputesForIt) {
  const OperationTimes observed;
  const at::ThreadLocalState state;
  std::thread([&] {
    const at::ThreadLocalStateGuard in_this_thread(state);
    at::ones({2});
  }).join();
  EXPECT_EQ(observed.seconds().count("aten::ones"), 1u);
}

TEST(OperationTimes, DoNotCountThoseOfOtherThreads) {
  const OperationTimes observed;
  std::thread([] { at::ones({2}); }).join();
  EXPECT_TRUE(observed.seconds().empty());
}

}  // namespace
}  // namespace inkling
