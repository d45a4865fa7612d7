#include "train/histogram.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace inkling {
namespace {

constexpr std::size_t buckets = 64;  // TensorBoard draws 30

// Fills in all but the buckets.
Histogram summary_of(std::span<const float> numbers) {
  Histogram all{.smallest = std::numeric_limits<double>::infinity(),
                .largest = -std::numeric_limits<double>::infinity()};
  for (const float number : numbers) {
    if (!std::isfinite(number)) continue;
    const double value = number;
    all.smallest = std::min(all.smallest, value);
    all.largest = std::max(all.largest, value);
    all.count += 1;
    all.sum += value;
    all.sum_of_squares += value * value;
  }
  return all;
}

}  // namespace

std::optional<Histogram> histogram_of(std::span<const float> numbers) {
  Histogram all = summary_of(numbers);
  if (all.count == 0) return std::nullopt;
  const double width = (all.largest - all.smallest) / static_cast<double>(buckets);
  if (width == 0) {
    all.limits = {all.largest};
    all.counts = {all.count};
    return all;
  }
  for (std::size_t i = 1; i < buckets; ++i) all.limits.push_back(all.smallest + static_cast<double>(i) * width);
  all.limits.push_back(all.largest);
  std::vector<std::int64_t> counts(buckets, 0);
  for (const float number : numbers) {
    if (!std::isfinite(number)) continue;
    const auto bucket = static_cast<std::size_t>((number - all.smallest) / width);
    ++counts[std::min(bucket, buckets - 1)];
  }
  all.counts.assign(counts.begin(), counts.end());
  return all;
}

}  // namespace inkling
