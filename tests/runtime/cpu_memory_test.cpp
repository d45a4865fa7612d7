#include "runtime/cpu_memory.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "base/error.h"

namespace inkling {
namespace {

// Sizes that no other test asks for, so that nothing is kept for them yet.
constexpr std::int64_t floats = 7 * 1024 * 1024 + 16;
constexpr std::uint64_t bytes = floats * 4;

TEST(CpuMemory, AFreedBlockServesTheNextTensorOfItsSize) {
  reuse_cpu_memory();
  const CpuMemory before = cpu_memory();
  const void* first = nullptr;
  {
    const at::Tensor tensor = at::empty({floats});
    first = tensor.data_ptr();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 64, 0);
    EXPECT_GE(cpu_memory().held, before.held + bytes);
  }
  const CpuMemory between = cpu_memory();
  const at::Tensor again = at::empty({floats});
  EXPECT_EQ(again.data_ptr(), first);
  EXPECT_EQ(cpu_memory().allocations, between.allocations);
  EXPECT_EQ(cpu_memory().held, between.held);
}

TEST(CpuMemory, ABlockInUseIsNotGivenAway) {
  reuse_cpu_memory();
  const at::Tensor one = at::empty({floats + 64}).fill_(1);
  const at::Tensor two = at::empty({floats + 64}).fill_(2);
  EXPECT_EQ(one.sum().item<double>(), floats + 64);
  EXPECT_EQ(two.sum().item<double>(), 2 * (floats + 64));
}

TEST(CpuMemory, ALargeBlockDoesNotServeASmallTensor) {
  reuse_cpu_memory();
  {
    const at::Tensor large = at::empty({8 * floats});
  }
  const std::uint64_t allocations = cpu_memory().allocations;
  const at::Tensor small = at::empty({3 * floats});
  EXPECT_EQ(cpu_memory().allocations, allocations + 1);
}

TEST(CpuMemory, KeptBlocksAreGivenBackWhenAskedFor) {
  reuse_cpu_memory();
  const at::Tensor used = at::empty({2 * floats});
  {
    const at::Tensor freed = at::empty({5 * floats});
  }
  const CpuMemory before = cpu_memory();
  give_back_cpu_memory();
  EXPECT_LE(cpu_memory().held, before.held - 5 * bytes);
  EXPECT_GE(cpu_memory().held, 2 * bytes);
  EXPECT_EQ(cpu_memory().max_held, before.max_held);
}

TEST(CpuMemory, BlocksThatLieSideBySideGoBackTogether) {
  reuse_cpu_memory();
  give_back_cpu_memory();
  const CpuMemory before = cpu_memory();
  constexpr std::int64_t length = 50'000;
  {
    std::vector<at::Tensor> all;
    for (int i = 0; i < 200; ++i) {
      all.push_back(at::full({length}, i, at::kFloat));
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(all.back().data_ptr()) % 64, 0);
    }
    for (int i = 0; i < 200; ++i) EXPECT_EQ(all[static_cast<std::size_t>(i)].sum().item<double>(), i * length);
    EXPECT_GE(cpu_memory().held, before.held + 200 * length * sizeof(float));
    all.erase(all.begin(), all.begin() + 199);
    give_back_cpu_memory();
    EXPECT_LT(cpu_memory().held, before.held + 200 * length * sizeof(float)) << "those of other regions";
    EXPECT_EQ(all.front().sum().item<double>(), 199 * length);
  }
  give_back_cpu_memory();
  EXPECT_EQ(cpu_memory().held, before.held);
}

TEST(CpuMemory, WhatCannotBeHadIsAnErrorThatSaysHowMuchItWas) {
  reuse_cpu_memory();
  try {
    at::empty({std::int64_t{1} << 50});  // 4 PiB
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::environment);
    EXPECT_NE(error.message().find("out of memory: a tensor of 4.0 PiB"), std::string::npos) << error.message();
  }
}

}  // namespace
}  // namespace inkling
