// The words that stand for the values of an enum in files, flags and messages.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace inkling {

// Each enum of the settings has a line of these behind it, in its own order.
template <std::size_t count>
using Words = std::array<std::string_view, count>;
template <class Enum>
inline constexpr Words<0> words_of{};

// Returns "char" for TokenizerKind::character.
template <class Enum>
constexpr std::string_view word_of(Enum value) {
  return words_of<Enum>.at(static_cast<std::size_t>(value));
}

}  // namespace inkling
