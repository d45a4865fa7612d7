// How work is split over threads: everything once, and sums in an order that only the number of threads decides.
#include "runtime/parallel.h"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <xmmintrin.h>

#include <algorithm>
#include <atomic>
#include <filesystem>

#include "base/error.h"
#include "base/strings.h"

extern "C" int MKL_Get_Max_Threads();

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

TEST(Workers, EachDoTheirPartOnceAndComputeWithOneThread) {
  at::set_num_threads(4);
  Workers workers(3);
  std::vector<int> visits(3, 0), threads(3, 0), inside(3, 0);
  for (int round = 0; round < 1000; ++round) {
    workers.run([&](int worker) {
      const auto i = static_cast<std::size_t>(worker);
      ++visits[i];
      at::parallel_for(0, 1000, 1, [&](std::int64_t, std::int64_t) {});  // the first in a thread sets its number anew
      threads[i] = std::max(at::get_num_threads(), MKL_Get_Max_Threads());
      in_all_threads([&](int, int all) { inside[i] = all; });
    });
  }
  EXPECT_EQ(visits, std::vector<int>(3, 1000));
  EXPECT_EQ(threads, std::vector<int>(3, 1));
  EXPECT_EQ(inside, std::vector<int>(3, 1));
  EXPECT_EQ(at::get_num_threads(), 4);
  EXPECT_EQ(MKL_Get_Max_Threads(), 4);
}

// MKL has a number of its own, and would share out a product of a worker over more threads, which stay.
TEST(Workers, ComputeProductsInTheirOwnThread) {
  at::set_num_threads(4);
  const at::Tensor matrix = at::ones({300, 300}), product = at::mm(matrix, matrix);
  const auto threads_of_process = [] {
    return std::ranges::distance(std::filesystem::directory_iterator("/proc/self/task"));
  };
  Workers workers(3);
  const auto before = threads_of_process();
  std::vector<at::Tensor> products(3);
  workers.run([&](int worker) { products[static_cast<std::size_t>(worker)] = at::mm(matrix, matrix); });
  for (const at::Tensor& made : products) EXPECT_TRUE(at::equal(made, product));
  EXPECT_EQ(threads_of_process(), before);
}

TEST(Workers, ShareOutPiecesOnceEach) {
  for (const int count : {1, 2, 5}) {
    Workers workers(count);
    std::vector<std::atomic<int>> visits(300);
    workers.each(300, [&](std::int64_t i, int worker) {
      EXPECT_LT(worker, count);
      ++visits[static_cast<std::size_t>(i)];
    });
    for (const std::atomic<int>& visit : visits) EXPECT_EQ(visit, 1);
    workers.each(0, [](std::int64_t, int) { FAIL(); });
  }
}

TEST(Workers, ComputeWithGradientsAndRoundingOfTheCaller) {
  Workers workers(3);
  for (const bool enabled : {false, true, false}) {
    const at::AutoGradMode mode(enabled);
    std::vector<int> seen(3, -1);
    workers.run([&](int worker) { seen[static_cast<std::size_t>(worker)] = at::GradMode::is_enabled(); });
    EXPECT_EQ(seen, std::vector<int>(3, enabled));
  }
  const unsigned before = _mm_getcsr();
  for (const unsigned flushing : {0x8040u, 0u}) {
    _mm_setcsr((before & ~0x8040u) | flushing);
    std::vector<unsigned> seen(3);
    workers.run([&](int worker) { seen[static_cast<std::size_t>(worker)] = _mm_getcsr() & 0x8040u; });
    EXPECT_EQ(seen, std::vector<unsigned>(3, flushing));
  }
  _mm_setcsr(before);
}

TEST(Workers, ThrowWhatTheFirstOfThemThrewWhenAllAreDone) {
  Workers workers(4);
  std::atomic<int> done = 0;
  const auto fail = [&](int worker) {
    if (worker == 1 || worker == 2) throw Error::input(str("worker ", worker));
    ++done;
  };
  for (int round = 0; round < 100; ++round) {
    try {
      workers.run(fail);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.message(), "worker 1");
    }
  }
  EXPECT_EQ(done, 200);
  workers.run([&](int) { ++done; });
  EXPECT_EQ(done, 204);
}

}  // namespace
}  // namespace inkling
