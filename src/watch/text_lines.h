// Lines of a terminal: pieces of text, each in one of a few inks.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/terminal_text.h"

namespace inkling {

// What a piece is, not how it looks: a terminal's own colours show it, so it can be read on dark and on light.
enum class Ink { plain, faint, strong, training, validation, bound, good, bad };

struct Piece {
  std::string text;  // printable()
  Ink ink = Ink::plain;
};
using TextLine = std::vector<Piece>;

std::size_t columns_of(const TextLine& line);

// With `color` in the terminal's own colours, reset at the end; without, the text alone.
std::string rendered(const TextLine& line, bool color);

// `pieces` one after the other with two spaces between, in as many lines as they need. Only one that is too long for a
// line alone is broken.
std::vector<TextLine> flowed(const std::vector<Piece>& pieces, std::size_t columns);

// A printable text in lines of so many columns, broken at spaces where there are some. What is wider than a line alone
// is left out.
std::vector<std::string> wrapped(std::string_view text, std::size_t columns);

}  // namespace inkling
