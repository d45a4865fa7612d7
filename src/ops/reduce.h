// Sums over rows that several threads share: each part sums into memory of its own, then the parts are added in order.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "ops/parallel.h"

namespace inkling {

// Calls body(begin, end, sums) over parts of [0, rows). sums[i] is where this part adds its share of targets[i]
// ([channels] floats; null stays null). Afterwards every part's share has been added to the targets, first part first.
template <typename Body>
void add_over_parts(std::int64_t rows, std::initializer_list<float*> targets, std::int64_t channels, const Body& body) {
  constexpr std::int64_t smallest_part = 16;
  const std::vector<float*> all(targets);
  const auto count = static_cast<std::int64_t>(all.size());
  const std::int64_t per_part = count * channels;
  std::vector<float> shares(static_cast<std::size_t>(at::get_num_threads() * per_part), 0.0f);
  parallel_parts(rows, smallest_part, [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
    std::vector<float*> sums(all.size());
    for (std::int64_t i = 0; i < count; ++i) {
      float* const share = shares.data() + part * per_part + i * channels;
      sums[static_cast<std::size_t>(i)] = all[static_cast<std::size_t>(i)] == nullptr ? nullptr : share;
    }
    body(begin, end, sums.data());
  });
  for (std::int64_t part = 0; part < at::get_num_threads(); ++part) {
    for (std::int64_t i = 0; i < count; ++i) {
      float* const target = all[static_cast<std::size_t>(i)];
      if (target == nullptr) continue;
      const float* const share = shares.data() + part * per_part + i * channels;
      for (std::int64_t c = 0; c < channels; ++c) target[c] += share[c];
    }
  }
}

}  // namespace inkling
