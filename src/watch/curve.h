// A loss curve in characters: braille dots where the terminal has UTF-8, otherwise ASCII.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "watch/text_lines.h"

namespace inkling {

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

// Exactly size.rows lines of at most size.columns; none where that is smaller than smallest_curve or there is nothing
// to draw. The loss axis is for the steps after the first 3 %, whose higher losses lie at its upper edge, and
// logarithmic where they differ by more than a factor of 2.5.
std::vector<TextLine> draw_curve(const Curve& curve, CurveSize size, Charset charset);

}  // namespace inkling
