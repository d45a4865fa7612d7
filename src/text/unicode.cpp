#include "text/unicode.h"

#include <algorithm>
#include <map>

namespace inkling {

UnicodeClasses::UnicodeClasses() {
  std::vector<CharacterClass> all(code_point_count, CharacterClass::other);
  for (const UnicodeRange& range : unicode_ranges) {
    std::fill(all.begin() + range.first, all.begin() + range.last + 1, range.character_class);
  }
  std::map<std::vector<CharacterClass>, std::uint16_t> pages;
  for (std::size_t i = 0; i < page_of_.size(); ++i) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(i * page_size);
    std::vector<CharacterClass> page(begin, begin + page_size);
    const auto [found, is_new] = pages.try_emplace(std::move(page), static_cast<std::uint16_t>(pages.size()));
    if (is_new) classes_.insert(classes_.end(), found->first.begin(), found->first.end());
    page_of_[i] = found->second;
  }
}

const UnicodeClasses& UnicodeClasses::table() {
  static const UnicodeClasses classes;
  return classes;
}

}  // namespace inkling
