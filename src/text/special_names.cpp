#include "text/special_names.h"

#include <algorithm>
#include <utility>

namespace inkling {

SpecialNames::SpecialNames(std::vector<std::string> names) : names_(std::move(names)) {
  std::sort(names_.begin(), names_.end(), [](const auto& a, const auto& b) { return a.size() > b.size(); });
  for (const std::string& name : names_) {
    if (name.size() < 2) continue;
    by_two_bytes_[std::string_view(name).substr(0, 2)].push_back(name);
    if (!std::exchange(begins_[static_cast<unsigned char>(name[0])], true)) first_bytes_ += name[0];
    longest_ = std::max(longest_, name.size());
  }
}

std::optional<SpecialNames::Found> SpecialNames::find(std::string_view text, std::size_t from) const {
  if (first_bytes_.empty()) return std::nullopt;
  for (std::size_t at = from; at < text.size(); ++at) {
    if (first_bytes_.size() == 1) {
      at = text.find(first_bytes_[0], at);
      if (at == std::string_view::npos) return std::nullopt;
    } else if (!begins_[static_cast<unsigned char>(text[at])]) {
      continue;
    }
    const auto names = by_two_bytes_.find(text.substr(at, 2));
    if (names == by_two_bytes_.end()) continue;
    for (const std::string_view name : names->second) {
      if (text.substr(at).starts_with(name)) return Found{at, name};
    }
  }
  return std::nullopt;
}

}  // namespace inkling
