// Runs a test once for every instruction set that this processor has, and makes reproducible numbers for it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "base/random.h"
#include "kernels/cpu_kernels.h"
#include "tests/oracle/rounding.h"

namespace inkling::test {

using oracle::function_roundings;
using oracle::in_softmax;
using oracle::rounding_error;
using oracle::sum_error;

class OnEveryInstructionSet : public testing::TestWithParam<const CpuKernels*> {
 protected:
  const CpuKernels& loops() const { return *GetParam(); }
};

// Widths that fill no vector, fill one exactly, and leave a rest.
inline const std::vector<std::int64_t> odd_widths = {1, 7, 16, 65, 100};

inline std::vector<float> normal_numbers(std::uint64_t key, std::int64_t count, double scale = 1.0) {
  std::vector<float> numbers(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(scale * random_normal(key, i));
  return numbers;
}

// The size of the largest, at least 1.
inline double largest(const std::vector<float>& values) {
  double found = 1.0;
  for (const float value : values) found = std::max(found, std::abs(static_cast<double>(value)));
  return found;
}

// The largest |actual - expected| / max(1, |expected|); infinite if a value is NaN where none is expected.
template <typename Expected>
double largest_error(const std::vector<float>& actual, const std::vector<Expected>& expected) {
  if (actual.size() != expected.size()) return INFINITY;
  double largest = 0.0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const auto wanted = static_cast<double>(expected[i]);
    const double error = std::abs(static_cast<double>(actual[i]) - wanted) / std::max(1.0, std::abs(wanted));
    if (!(error <= largest)) largest = std::isnan(error) ? INFINITY : error;
  }
  return largest;
}

}  // namespace inkling::test

#define INKLING_ON_EVERY_INSTRUCTION_SET(Suite)                                                             \
  INSTANTIATE_TEST_SUITE_P(                                                                                 \
      , Suite, testing::ValuesIn(::inkling::all_cpu_kernels().begin(), ::inkling::all_cpu_kernels().end()), \
      [](const auto& instance) { return std::string(instance.param->name); })
