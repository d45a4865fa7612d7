#include "base/random.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace inkling {
namespace {

constexpr std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();

TEST(Random, BitsAreThePublishedSplitMix64) {
  // The stateful generator with seed 0 and with seed 1234567, as its authors' program prints them.
  EXPECT_EQ(random_bits(0, 0), 0xe220a8397b1dcdafULL);
  EXPECT_EQ(random_bits(0, 1), 0x6e789e6aa1b965f4ULL);
  EXPECT_EQ(random_bits(0, 2), 0x06c45d188009454fULL);
  EXPECT_EQ(random_bits(0, 3), 0xf88bb8a8724c81ecULL);
  EXPECT_EQ(random_bits(1234567, 0), 6457827717110365317ULL);
  EXPECT_EQ(random_bits(1234567, 1), 3203168211198807973ULL);
  EXPECT_EQ(random_bits(1234567, 4), 16408922859458223821ULL);
}

// The numbers below were computed by a separate program in Python from docs/formats.md: they are part of the format.
TEST(Random, KeysAreThoseOfTheFormat) {
  EXPECT_EQ(random_key(1337, Purpose::window_offset, 500), 0x19c137e791d3e3d5ULL);
  EXPECT_EQ(random_key(0, Purpose::initial_weights, 0), 0x44e5b98100c67fb0ULL);
  EXPECT_EQ(random_key(largest, Purpose::tokenizer_sample, largest), 0xf01593939250d1baULL);
}

TEST(Random, NumbersAreThoseOfTheFormat) {
  const std::uint64_t key = random_key(1337, Purpose::window_order, 0);
  const std::array<std::uint64_t, 8> below = {6, 58, 37, 11, 21, 58, 34, 57};
  for (std::size_t i = 0; i < below.size(); ++i) EXPECT_EQ(random_below(key, i, 100), below[i]);
  EXPECT_EQ(random_unit(key, 0), 0.06680496953375892);
  EXPECT_EQ(random_unit(key, 1), 0.5885149128602839);
  EXPECT_NEAR(random_normal(key, 0), -0.3158199185736955, 1e-15);
  EXPECT_NEAR(random_normal(key, 2), -0.6052463443799899, 1e-15);
}

TEST(Random, EveryPartOfTheKeyChangesTheStream) {
  const std::uint64_t key = random_key(1, Purpose::dropout, 1);
  EXPECT_NE(key, random_key(2, Purpose::dropout, 1));
  EXPECT_NE(key, random_key(1, Purpose::sampling, 1));
  EXPECT_NE(key, random_key(1, Purpose::dropout, 2));
}

TEST(Random, UnitStaysBelowOneAndFillsTenBinsEvenly) {
  const std::uint64_t key = random_key(3, Purpose::sampling, 0);
  std::array<int, 10> bins{};
  constexpr int draws = 100000;
  for (int i = 0; i < draws; ++i) {
    const double unit = random_unit(key, static_cast<std::uint64_t>(i));
    ASSERT_GE(unit, 0.0);
    ASSERT_LT(unit, 1.0);
    ++bins[static_cast<std::size_t>(unit * 10)];
  }
  const double expected = draws / 10.0;
  double chi_squared = 0;
  for (const int count : bins) chi_squared += std::pow(count - expected, 2) / expected;
  EXPECT_LT(chi_squared, 27.9);  // 9 degrees of freedom: 1 in 1,000 random streams lies above
}

TEST(Random, BelowStaysBelowItsBound) {
  EXPECT_TRUE(rc::check([](std::uint64_t key, std::uint64_t index) {
    const std::uint64_t bound = *rc::gen::suchThat(rc::gen::arbitrary<std::uint64_t>(), [](auto n) { return n > 0; });
    RC_ASSERT(random_below(key, index, bound) < bound);
    RC_ASSERT(random_below(key, index, 1) == 0U);
    RC_ASSERT(random_below(key, index, largest) < largest);
  }));
}

TEST(Random, NormalHasTheMomentsOfTheNormalDistribution) {
  const std::uint64_t key = random_key(4, Purpose::initial_weights, 0);
  constexpr int draws = 400000;
  double mean = 0, square = 0, cube = 0, fourth = 0;
  int beyond_two = 0;
  for (int i = 0; i < draws; ++i) {
    const double x = random_normal(key, static_cast<std::uint64_t>(i));
    ASSERT_TRUE(std::isfinite(x));
    mean += x / draws;
    square += x * x / draws;
    cube += x * x * x / draws;
    fourth += x * x * x * x / draws;
    beyond_two += std::abs(x) > 2;
  }
  // Five standard errors each.
  EXPECT_NEAR(mean, 0, 5 * std::sqrt(1.0 / draws));
  EXPECT_NEAR(square, 1, 5 * std::sqrt(2.0 / draws));
  EXPECT_NEAR(cube, 0, 5 * std::sqrt(15.0 / draws));
  EXPECT_NEAR(fourth, 3, 5 * std::sqrt(96.0 / draws));
  EXPECT_NEAR(beyond_two / double{draws}, 0.0455003, 5 * std::sqrt(0.0455 * 0.9545 / draws));
}

TEST(Permutation, IsTheOneOfTheFormat) {
  const std::uint64_t key = random_key(1337, Purpose::window_order, 0);
  const Permutation ten(key, 10);
  const std::array<std::uint64_t, 10> expected = {1, 0, 3, 2, 7, 9, 6, 4, 8, 5};
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(ten(i), expected[i]);
  const Permutation million(key, 1000003);
  EXPECT_EQ(million(0), 103484U);
  EXPECT_EQ(million(4), 860317U);
  EXPECT_EQ(Permutation(key, largest)(0), 14423319714717022617ULL);
  EXPECT_EQ(Permutation(key, largest)(2), 5632913395878225071ULL);
}

void expect_bijection(std::uint64_t key, std::uint64_t size) {
  const Permutation permutation(key, size);
  std::vector<bool> seen(size);
  for (std::uint64_t i = 0; i < size; ++i) {
    const std::uint64_t image = permutation(i);
    ASSERT_LT(image, size);
    ASSERT_FALSE(seen[image]) << image << " appears twice in a permutation of " << size;
    seen[image] = true;
  }
}

TEST(Permutation, VisitsEveryPlaceOnceForEverySizeUpToAThousand) {
  for (std::uint64_t size = 1; size <= 1000; ++size) expect_bijection(random_key(size, Purpose::window_order, 7), size);
}

TEST(Permutation, VisitsEveryPlaceOnceAroundPowersOfTwo) {
  for (std::uint64_t power = 1024; power <= 1 << 17; power *= 2) {
    for (const std::uint64_t size : {power - 1, power, power + 1}) expect_bijection(power, size);
  }
}

TEST(Permutation, OfHugeSizesIsDistinctAndInside) {
  EXPECT_TRUE(rc::check([](std::uint64_t key, std::uint64_t a, std::uint64_t b) {
    const std::uint64_t size = *rc::gen::inRange<std::uint64_t>(1, largest);
    const Permutation permutation(key, size);
    RC_ASSERT(permutation(a % size) < size);
    RC_ASSERT((a % size == b % size) == (permutation(a % size) == permutation(b % size)));
  }));
}

TEST(Permutation, SendsFirstPlaceEverywhereAsKeysChange) {
  constexpr std::uint64_t size = 50;
  std::array<int, size> counts{};
  constexpr int keys = 50000;
  for (std::uint64_t seed = 0; seed < keys; ++seed) {
    ++counts[Permutation(random_key(seed, Purpose::window_order, 0), size)(0)];
  }
  const double expected = keys / 50.0;
  double chi_squared = 0;
  for (const int count : counts) chi_squared += std::pow(count - expected, 2) / expected;
  EXPECT_LT(chi_squared, 85.4);  // 49 degrees of freedom: 1 in 1,000 lies above
}

}  // namespace
}  // namespace inkling
