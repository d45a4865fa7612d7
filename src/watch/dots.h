// A grid of characters as a grid of dots.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/terminal_text.h"

namespace inkling {

// Each character has 2 x 4 dots in braille (Unicode's U+2800 to U+28FF), in ASCII one.
class Dots {
 public:
  Dots(std::size_t columns, std::size_t rows, Charset charset)
      : columns_(columns),
        across_(charset == Charset::utf8 ? 2 : 1),
        down_(charset == Charset::utf8 ? 4 : 1),
        cells_(columns * rows, 0) {}

  std::size_t width() const { return columns_ * across_; }
  std::size_t height() const { return cells_.size() / columns_ * down_; }

  // From the top left corner; x < width(), y < height().
  void set(std::size_t x, std::size_t y);
  void line(std::size_t x0, std::size_t y0, std::size_t x1, std::size_t y1);

  // What stands in a cell; empty where no dot is set.
  std::string sign(std::size_t column, std::size_t row) const;

 private:
  std::size_t columns_, across_, down_;
  std::vector<int> cells_;
};

}  // namespace inkling
