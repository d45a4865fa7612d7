#include "watch/dots.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/strings.h"

namespace inkling {

void Dots::set(std::size_t x, std::size_t y) {
  // The bits of U+2800 and what follows: dots 1 to 8, by column and row.
  static constexpr std::array<std::array<int, 4>, 2> bits{{{0x01, 0x02, 0x04, 0x40}, {0x08, 0x10, 0x20, 0x80}}};
  cells_[y / down_ * columns_ + x / across_] |= across_ == 1 ? 1 : bits[x % 2][y % 4];
}

void Dots::line(std::size_t x0, std::size_t y0, std::size_t x1, std::size_t y1) {
  const auto distance = [](std::size_t a, std::size_t b) { return a < b ? b - a : a - b; };
  const std::size_t count = std::max({distance(x0, x1), distance(y0, y1), std::size_t{1}});
  for (std::size_t i = 0; i <= count; ++i) {
    const double share = static_cast<double>(i) / static_cast<double>(count);
    set(static_cast<std::size_t>(std::lround(std::lerp(static_cast<double>(x0), static_cast<double>(x1), share))),
        static_cast<std::size_t>(std::lround(std::lerp(static_cast<double>(y0), static_cast<double>(y1), share))));
  }
}

std::string Dots::sign(std::size_t column, std::size_t row) const {
  const int bits = cells_[row * columns_ + column];
  if (bits == 0) return "";
  if (across_ == 1) return ".";
  std::string text;
  append_utf8(text, static_cast<char32_t>(0x2800 + bits));
  return text;
}

}  // namespace inkling
