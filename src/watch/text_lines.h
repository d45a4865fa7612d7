// Lines of a terminal: pieces of text, each in one of a few inks, and a loss curve that is drawn in such lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
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

struct CurvePoint {
  std::int64_t step = 0;
  double loss = 0;
};

// Losses that are not finite or not above zero are left out.
struct Curve {
  std::vector<CurvePoint> training;
  std::vector<CurvePoint> validation;
  std::optional<double> best_possible = {};
};

struct CurveSize {
  std::size_t columns = 0, rows = 0;  // with axes and their numbers
};
inline constexpr CurveSize smallest_curve{20, 5};

// Returns the curve in characters: braille dots where the terminal has UTF-8, otherwise ASCII. These are exactly
// size.rows lines of at most size.columns; none where that is smaller than smallest_curve or there is nothing
// to draw. The loss axis is for the steps after the first 3 %, whose higher losses lie at its upper edge, and
// logarithmic where they differ by more than a factor of 2.5.
std::vector<TextLine> draw_curve(const Curve& curve, CurveSize size, Charset charset);

}  // namespace inkling
