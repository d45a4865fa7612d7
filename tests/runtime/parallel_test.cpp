// How work is split over threads: everything once, and sums in an order that only the number of threads decides.
#include "runtime/parallel.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <numeric>

#include "runtime/parallel.h"

namespace inkling {
namespace {

TEST(ParallelParts, CoverEverythingOnce) {
  EXPECT_TRUE(rc::check([] {
    const auto n = *rc::gen::inRange<std::int64_t>(0, 200);
    const auto smallest = *rc::gen::inRange<std::int64_t>(1, 70);
    at::set_num_threads(*rc::gen::inRange(1, 6));
    std::vector<int> visits(static_cast<std::size_t>(n), 0);
    std::vector<std::int64_t> begins(static_cast<std::size_t>(at::get_num_threads()), -1);
    parallel_parts(n, smallest, [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
      begins.at(static_cast<std::size_t>(part)) = begin;
      for (std::int64_t i = begin; i < end; ++i) ++visits[static_cast<std::size_t>(i)];
    });
    for (int count : visits) RC_ASSERT(count == 1);
    if (n > 0) RC_ASSERT(begins[0] == 0);
  }));
}

TEST(AddOverParts, AddsEveryRowToItsTargetAndLeavesNullAlone) {
  EXPECT_TRUE(rc::check([] {
    const auto rows = *rc::gen::inRange<std::int64_t>(0, 200);
    at::set_num_threads(*rc::gen::inRange(1, 6));
    constexpr std::int64_t channels = 3;
    std::vector<float> first(channels, 5.0f), third(channels, 7.0f);
    add_over_parts(rows, {first.data(), nullptr, third.data()}, channels,
                   [&](std::int64_t begin, std::int64_t end, float* const* sums) {
                     RC_ASSERT(sums[1] == nullptr);
                     for (std::int64_t row = begin; row < end; ++row) {
                       for (std::int64_t c = 0; c < channels; ++c) {
                         sums[0][c] += static_cast<float>(row);
                         sums[2][c] += 1.0f;
                       }
                     }
                   });
    const std::int64_t sum_of_rows = rows * (rows - 1) / 2;
    for (float value : first) RC_ASSERT(value == 5.0f + static_cast<float>(sum_of_rows));
    for (float value : third) RC_ASSERT(value == 7.0f + static_cast<float>(rows));
  }));
}

}  // namespace
}  // namespace inkling
