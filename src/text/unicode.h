// What the patterns of byte-level BPE ask of a character: whether it is a letter, a number or white space.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace inkling {

// \p{L}, \p{N} and \s of the patterns: Unicode's general categories L and N and its property White_Space.
enum class CharacterClass : std::uint8_t { other, letter, number, white_space };

struct UnicodeRange {
  char32_t first, last;
  CharacterClass character_class;
};

// Every character that is not `other`, in ascending order, and the version of Unicode that says so.
extern const std::span<const UnicodeRange> unicode_ranges;
extern const char* const unicode_version;

// The class of every code point, found in two steps, by pages of 256 neighbours.
class UnicodeClasses {
 public:
  static const UnicodeClasses& table();

  CharacterClass of(char32_t code_point) const {
    return classes_[page_of_[code_point / page_size] * page_size + code_point % page_size];
  }

 private:
  static constexpr std::size_t page_size = 256, code_point_count = 0x110000;

  UnicodeClasses();

  std::array<std::uint16_t, code_point_count / page_size> page_of_{};
  std::vector<CharacterClass> classes_;
};

}  // namespace inkling
