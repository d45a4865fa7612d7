#include "train/board.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

namespace inkling {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

TEST(Histogram, CountsEachFiniteNumberInItsBucket) {
  std::vector<float> numbers;
  for (int i = 0; i <= 640; ++i) numbers.push_back(static_cast<float>(i));
  numbers.insert(numbers.end(), {infinity, -infinity, nan});
  const auto histogram = histogram_of(numbers);
  ASSERT_TRUE(histogram);
  EXPECT_EQ(histogram->smallest, 0);
  EXPECT_EQ(histogram->largest, 640);
  EXPECT_EQ(histogram->count, 641);
  EXPECT_EQ(histogram->sum, 640 * 641 / 2);
  ASSERT_EQ(histogram->limits.size(), 64u);
  EXPECT_EQ(histogram->counts.front(), 10);
  EXPECT_EQ(histogram->counts.back(), 11);  // the largest number is in the last bucket
  EXPECT_EQ(std::accumulate(histogram->counts.begin(), histogram->counts.end(), 0.0), 641);
  EXPECT_TRUE(std::is_sorted(histogram->limits.begin(), histogram->limits.end()));
  EXPECT_EQ(histogram->limits.back(), 640);
}

TEST(Histogram, OfEqualNumbersHasOneBucket) {
  const auto histogram = histogram_of(std::vector<float>(7, 1.5f));
  ASSERT_TRUE(histogram);
  EXPECT_EQ(histogram->limits, std::vector{1.5});
  EXPECT_EQ(histogram->counts, std::vector{7.0});
}

TEST(Histogram, BearsTheLargestAndTheSmallestDifferences) {
  constexpr float largest = std::numeric_limits<float>::max(), tiny = std::numeric_limits<float>::denorm_min();
  for (const std::vector<float>& numbers : {std::vector{-largest, largest}, std::vector{0.0f, tiny}}) {
    const auto histogram = histogram_of(numbers);
    ASSERT_TRUE(histogram);
    EXPECT_EQ(histogram->counts.front(), 1);
    EXPECT_EQ(histogram->counts.back(), 1);
  }
}

TEST(Histogram, OfNoFiniteNumberIsNone) {
  EXPECT_FALSE(histogram_of({}));
  EXPECT_FALSE(histogram_of(std::vector{nan, infinity}));
}

}  // namespace
}  // namespace inkling
