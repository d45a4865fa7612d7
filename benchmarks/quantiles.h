// The value below which `share` of the values lie.
#pragma once

#include <algorithm>
#include <vector>

namespace inkling {

inline double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1) + 0.5)];
}

}  // namespace inkling
