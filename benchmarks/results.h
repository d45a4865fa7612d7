// What programs that measure share: quantiles, and the printing of their results.
#pragma once

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <vector>

namespace inkling {

// The value below which `share` of the values lie.
inline double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1) + 0.5)];
}

// One JSON object, or a line for each of its fields.
inline void print_results(const nlohmann::ordered_json& results, bool json) {
  if (json) {
    std::cout << results.dump() << '\n';
    return;
  }
  for (const auto& [name, value] : results.items()) std::cout << name << ": " << value.dump() << '\n';
}

}  // namespace inkling
