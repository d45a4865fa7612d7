#include "base/random.h"

#include <bit>
#include <cmath>
#include <numbers>

namespace inkling {

namespace {

__extension__ using Wide = unsigned __int128;

constexpr int feistel_rounds = 4;

}  // namespace

std::uint64_t random_below(std::uint64_t key, std::uint64_t index, std::uint64_t bound) {
  return static_cast<std::uint64_t>((static_cast<Wide>(random_bits(key, index)) * bound) >> 64);
}

double random_normal(std::uint64_t key, std::uint64_t index) {
  const double positive = 1.0 - random_unit(key, 2 * index);  // in (0, 1]: its logarithm is finite
  const double angle = 2.0 * std::numbers::pi * random_unit(key, 2 * index + 1);
  return std::sqrt(-2.0 * std::log(positive)) * std::cos(angle);
}

Permutation::Permutation(std::uint64_t key, std::uint64_t size)
    : key_(key), size_(size), half_bits_((std::bit_width(size - 1) + 1) / 2) {
  if (half_bits_ == 0) half_bits_ = 1;  // size 1: the walk below ends at 0
}

std::uint64_t Permutation::operator()(std::uint64_t index) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t value = index;
  do {
    std::uint64_t left = value >> half_bits_;
    std::uint64_t right = value & mask;
    for (std::uint64_t round = 0; round < feistel_rounds; ++round) {
      const std::uint64_t mixed = left ^ (random_bits(key_, (round << 32) | right) & mask);
      left = right;
      right = mixed;
    }
    value = (left << half_bits_) | right;
  } while (value >= size_);
  return value;
}

}  // namespace inkling
