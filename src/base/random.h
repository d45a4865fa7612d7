// Random numbers without state: a number is a function of (seed, purpose, step, index).
// The generator is SplitMix64 (Steele, Lea, Flood 2014) read at any position; docs/formats.md specifies it.
#pragma once

#include <cstdint>

namespace inkling {

// What a number is drawn for. The values are part of the format and must never change.
enum class Purpose : std::uint64_t {
  initial_weights = 1,
  window_order = 2,
  window_offset = 3,
  dropout = 4,
  sampling = 6,
  grammar = 7,
  tokenizer_sample = 8,
};

// SplitMix64's output function: a bijection of 64-bit words.
constexpr std::uint64_t mix64(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

constexpr std::uint64_t golden_gamma = 0x9e3779b97f4a7c15ULL;

// The key of a stream of numbers: there is one for each (seed, purpose, step).
constexpr std::uint64_t random_key(std::uint64_t seed, Purpose purpose, std::uint64_t step) {
  std::uint64_t key = mix64(seed + golden_gamma);
  key = mix64((key ^ static_cast<std::uint64_t>(purpose)) + golden_gamma);
  return mix64((key ^ step) + golden_gamma);
}

// The number at `index` of the stream: 64 uniform bits.
constexpr std::uint64_t random_bits(std::uint64_t key, std::uint64_t index) {
  return mix64(key + (index + 1) * golden_gamma);
}

// A number uniform in [0, 1), with 53 bits.
constexpr double random_unit(std::uint64_t key, std::uint64_t index) {
  return static_cast<double>(random_bits(key, index) >> 11) * 0x1.0p-53;
}

// A whole number uniform in [0, bound), by 128-bit multiplication (its bias is below bound/2^64); bound > 0.
std::uint64_t random_below(std::uint64_t key, std::uint64_t index, std::uint64_t bound);

// A standard normal number, by Box-Muller from the uniform numbers 2*index and 2*index + 1.
double random_normal(std::uint64_t key, std::uint64_t index);

// A keyed permutation of [0, size): four Feistel rounds over the next even number of bits, repeated along the cycle
// until the value is inside. Nothing is stored, so an epoch over 10^12 windows costs nothing.
class Permutation {
 public:
  Permutation(std::uint64_t key, std::uint64_t size);   // size > 0
  std::uint64_t operator()(std::uint64_t index) const;  // index < size

 private:
  std::uint64_t key_;
  std::uint64_t size_;
  int half_bits_;
};

}  // namespace inkling
