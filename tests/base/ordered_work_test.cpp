#include "base/ordered_work.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/child_process.h"

namespace inkling {
namespace {

TEST(OrderedWork, ResultsComeInTheOrderOfTheJobs) {
  for (const std::size_t threads : {1, 2, 7}) {
    std::vector<int> taken;
    OrderedWork<int> work(
        threads,
        [](int& job) {
          std::this_thread::sleep_for(std::chrono::microseconds(job % 3 * 50));  // not all take the same time
          job *= 2;
        },
        [&](int& job) { taken.push_back(job); });
    for (int i = 0; i < 200; ++i) work.push(i);
    work.finish();
    ASSERT_EQ(taken.size(), 200u);
    for (int i = 0; i < 200; ++i) EXPECT_EQ(taken[static_cast<std::size_t>(i)], 2 * i);
  }
}

TEST(OrderedWork, NoMoreThanTwoJobsForEachThreadAreUnderWay) {
  constexpr std::size_t threads = 3;
  std::size_t pushed = 0, taken = 0, most = 0;
  OrderedWork<int> work(threads, [](int&) {}, [&](int&) { ++taken; });
  for (int i = 0; i < 100; ++i) {
    work.push(i);
    ++pushed;
    most = std::max(most, pushed - taken);
  }
  work.finish();
  EXPECT_EQ(taken, 100u);
  EXPECT_LE(most, 2 * threads);
}

TEST(OrderedWork, TheEarliestErrorComesOutBehindWhatWasBeforeIt) {
  for (const std::size_t threads : {1, 4}) {
    std::vector<int> taken;
    OrderedWork<int> work(
        threads,
        [](int& job) {
          if (job == 5 || job == 6) throw std::runtime_error(std::to_string(job));
        },
        [&](int& job) { taken.push_back(job); });
    std::string message;
    try {
      for (int i = 0; i < 100; ++i) work.push(i);
      work.finish();
    } catch (const std::runtime_error& error) {
      message = error.what();
    }
    EXPECT_EQ(message, "5");
    EXPECT_EQ(taken, (std::vector<int>{0, 1, 2, 3, 4}));
  }
}

#ifndef __SANITIZE_ADDRESS__  // which ends the program where a thread has no memory

// A process with room for a few stacks more.
TEST(OrderedWork, IsDoneByFewerThreadsWhereTheSystemAllowsNoMore) {
  const auto answer = run_in_child_process([] {
    std::ifstream statistics("/proc/self/statm");
    rlim_t pages = 0;
    statistics >> pages;
    const rlim_t bytes = pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + (rlim_t{40} << 20);
    const rlimit limit{bytes, bytes};
    ::setrlimit(RLIMIT_AS, &limit);
    int sum = 0, taken = 0, most = 0;
    OrderedWork<int> work(
        10000, [](int& job) { job *= 2; },
        [&](int& job) {
          sum += job;
          ++taken;
        });
    for (int i = 0; i < 1000; ++i) {
      work.push(i);
      most = std::max(most, i + 1 - taken);
    }
    work.finish();
    // A stack takes more than 84 KiB of the 40 MiB, so there are fewer threads than 500.
    return std::to_string(sum) + (most < 1000 ? "" : " with all jobs under way");
  });
  EXPECT_EQ(answer.value_or("it crashed"), "999000");
}

#endif

TEST(OrderedWork, WhatHasNotBegunIsDropped) {
  std::atomic<int> done = 0;
  {
    OrderedWork<int> work(
        2,
        [&](int&) {
          std::this_thread::sleep_for(std::chrono::milliseconds(100));
          ++done;
        },
        [](int&) { FAIL() << "nobody asked"; });
    for (int i = 0; i < 4; ++i) work.push(i);
  }
  EXPECT_LE(done, 2) << "the other two waited for a thread";
}

}  // namespace
}  // namespace inkling
