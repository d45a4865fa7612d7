#include "watch/text_lines.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/strings.h"

namespace inkling {
namespace {

// SGR parameters (ECMA-48, 8.3.117).
std::string_view color_of(Ink ink) {
  switch (ink) {
    case Ink::plain:
      return "";
    case Ink::faint:
      return "2";
    case Ink::strong:
      return "1";
    case Ink::training:
      return "36";
    case Ink::validation:
      return "1;35";
    case Ink::bound:
      return "32";
    case Ink::good:
      return "1;32";
    case Ink::bad:
      return "1;31";
  }
  return "";
}

// A grid of characters as a grid of dots: each character has 2 x 4 dots in braille (Unicode's U+2800 to U+28FF), in
// ASCII one.
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
  void set(std::size_t x, std::size_t y) {
    // The bits of U+2800 and what follows: dots 1 to 8, by column and row.
    static constexpr std::array<std::array<int, 4>, 2> bits{{{0x01, 0x02, 0x04, 0x40}, {0x08, 0x10, 0x20, 0x80}}};
    cells_[y / down_ * columns_ + x / across_] |= across_ == 1 ? 1 : bits[x % 2][y % 4];
  }

  void line(std::size_t x0, std::size_t y0, std::size_t x1, std::size_t y1) {
    const auto distance = [](std::size_t a, std::size_t b) { return a < b ? b - a : a - b; };
    const std::size_t count = std::max({distance(x0, x1), distance(y0, y1), std::size_t{1}});
    for (std::size_t i = 0; i <= count; ++i) {
      const double share = static_cast<double>(i) / static_cast<double>(count);
      set(static_cast<std::size_t>(std::lround(std::lerp(static_cast<double>(x0), static_cast<double>(x1), share))),
          static_cast<std::size_t>(std::lround(std::lerp(static_cast<double>(y0), static_cast<double>(y1), share))));
    }
  }

  // What stands in a cell; empty where no dot is set.
  std::string sign(std::size_t column, std::size_t row) const {
    const int bits = cells_[row * columns_ + column];
    if (bits == 0) return "";
    if (across_ == 1) return ".";
    std::string text;
    append_utf8(text, static_cast<char32_t>(0x2800 + bits));
    return text;
  }

 private:
  std::size_t columns_, across_, down_;
  std::vector<int> cells_;
};

struct Range {
  double low = 0, high = 0;
  bool logarithmic = false;

  // 0 at `low`, 1 at `high`.
  double share(double value) const {
    return logarithmic ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
  }
};

// The first steps fall so far that nothing would be left to see of all others: they do not count where there are more,
// and lie at the upper edge.
constexpr double left_out = 0.03;

Range range_of_losses(const Curve& curve, std::int64_t last_step) {
  std::vector<double> losses;
  const auto add_from = [&](double first) {
    for (const auto* points : {&curve.training, &curve.validation}) {
      for (const CurvePoint& point : *points) {
        if (static_cast<double>(point.step) > first) losses.push_back(point.loss);
      }
    }
  };
  add_from(left_out * static_cast<double>(last_step));
  if (losses.size() < 3) add_from(-1);
  if (curve.best_possible) losses.push_back(*curve.best_possible);
  const auto [least, most] = std::minmax_element(losses.begin(), losses.end());
  const double low = *least, high = std::max(*most, *least * (1 + 1e-6));
  const double room = high > 2.5 * low ? 0.02 * low : 0.04 * (high - low);
  return {low - room, high + room, high > 2.5 * low};
}

// Round numbers in a range, from few to many.
std::vector<double> round_numbers(const Range& range, std::size_t wanted) {
  std::vector<double> best;
  if (range.logarithmic) {
    const int from = static_cast<int>(std::floor(std::log10(range.low)));
    const int to = static_cast<int>(std::ceil(std::log10(range.high)));
    constexpr std::array<std::array<double, 6>, 4> digits{{{1}, {1, 3}, {1, 2, 5}, {1, 1.5, 2, 3, 5, 7}}};
    for (const auto& set : digits) {
      std::vector<double> ticks;
      for (int exponent = from; exponent <= to; ++exponent) {
        for (const double digit : set) {
          const double tick = digit * std::pow(10.0, exponent);
          if (digit > 0 && tick >= range.low && tick <= range.high) ticks.push_back(tick);
        }
      }
      if (best.empty() || ticks.size() <= wanted) best = ticks;
    }
    return best;
  }
  const double rough = (range.high - range.low) / static_cast<double>(std::max<std::size_t>(wanted, 1));
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  const double step = rough <= power       ? power
                      : rough <= 2 * power ? 2 * power
                      : rough <= 5 * power ? 5 * power
                                           : 10 * power;
  for (double i = std::ceil(range.low / step); i * step <= range.high; ++i) best.push_back(i * step);
  return best;
}

// The picture itself: where a step and a loss lie in it.
class Plot {
 public:
  Plot(const Curve& curve, CurveSize size, Charset charset)
      : size_(size), charset_(charset), dots_(size.columns, size.rows, charset) {
    for (const auto* points : {&curve.training, &curve.validation}) {
      for (const CurvePoint& point : *points) last_ = std::max(last_, point.step);
    }
    losses_ = range_of_losses(curve, last_);
    cells_.resize(size.columns * size.rows);
    draw_training(curve.training);
    if (curve.best_possible) {
      for (std::size_t column = 0; column < size.columns; ++column) {
        put(column, row_of(*curve.best_possible), charset == Charset::utf8 ? "╌" : "-", Ink::bound);
      }
    }
    for (std::size_t row = 0; row < size.rows; ++row) {
      for (std::size_t column = 0; column < size.columns; ++column)
        put(column, row, dots_.sign(column, row), Ink::training);
    }
    for (const CurvePoint& point : curve.validation) {
      put(place(step_share(point.step), size.columns), row_of(point.loss), "o", Ink::validation);
    }
  }

  const Range& losses() const { return losses_; }
  std::int64_t last_step() const { return last_; }
  std::size_t row_of(double loss) const { return place(1 - losses_.share(loss), size_.rows); }

  TextLine line(std::size_t row) const {
    TextLine line;
    std::size_t end = size_.columns;
    while (end > 0 && cells_[row * size_.columns + end - 1].text.empty()) --end;
    for (std::size_t column = 0; column < end; ++column) {
      const Piece& cell = cells_[row * size_.columns + column];
      const std::string text = cell.text.empty() ? " " : cell.text;
      if (line.empty() || line.back().ink != cell.ink) {
        line.push_back({text, cell.ink});
      } else {
        line.back().text += text;
      }
    }
    return line;
  }

 private:
  static std::size_t place(double share, std::size_t count) {
    const double within = std::max(0.0, std::min(1.0, share));
    return std::min(count - 1, static_cast<std::size_t>(within * static_cast<double>(count)));
  }
  double step_share(std::int64_t step) const {
    return static_cast<double>(step) / static_cast<double>(std::max<std::int64_t>(last_, 1));
  }
  void put(std::size_t column, std::size_t row, std::string text, Ink ink) {
    if (!text.empty()) cells_[row * size_.columns + column] = {std::move(text), ink};
  }

  // The mean of the losses in each column of dots, joined by lines.
  void draw_training(const std::vector<CurvePoint>& points) {
    std::optional<std::pair<std::size_t, std::size_t>> before;
    for (std::size_t i = 0; i < points.size();) {
      const std::size_t x = place(step_share(points[i].step), dots_.width());
      double sum = 0;
      std::size_t count = 0;
      for (; i < points.size() && place(step_share(points[i].step), dots_.width()) == x; ++i, ++count)
        sum += points[i].loss;
      const std::size_t y = place(1 - losses_.share(sum / static_cast<double>(count)), dots_.height());
      if (before) dots_.line(before->first, before->second, x, y);
      dots_.set(x, y);
      before = {x, y};
    }
  }

  CurveSize size_;
  Charset charset_;
  Dots dots_;
  Range losses_;
  std::int64_t last_ = 0;
  std::vector<Piece> cells_;
};

std::string tick_text(double value) {
  const std::string rounded = format_fixed(value, 6);
  double number = 0;
  std::from_chars(rounded.data(), rounded.data() + rounded.size(), number);
  std::string text = format_shortest(number);
  return text.size() <= 6 ? text : format_shortest(value);
}

// One text for each row: the numbers of the loss axis, none next to another.
std::vector<std::string> loss_numbers(const Plot& plot, std::size_t rows) {
  std::vector<std::string> numbers(rows);
  for (const double tick : round_numbers(plot.losses(), std::max<std::size_t>(rows / 2, 2))) {
    const std::size_t row = plot.row_of(tick);
    const bool crowded = !numbers[row].empty() || (row > 0 && !numbers[row - 1].empty()) ||
                         (row + 1 < rows && !numbers[row + 1].empty());
    if (!crowded) numbers[row] = tick_text(tick);
  }
  return numbers;
}

// 0 at the left end, the last step at the right one, its half in the middle where there is room.
std::string step_numbers(std::int64_t last, std::size_t columns) {
  const std::string end = format_count(static_cast<std::uint64_t>(last));
  const std::string middle = last >= 2 ? format_count(static_cast<std::uint64_t>(last / 2)) : "";
  if (end.size() + 3 > columns) return end.size() <= columns ? end : "";
  std::string line(columns, ' ');
  line.replace(0, 1, "0");
  line.replace(columns - end.size(), end.size(), end);
  const std::size_t at = (columns - std::min(columns, middle.size())) / 2;
  if (!middle.empty() && at > 3 && at + middle.size() + 3 < columns - end.size())
    line.replace(at, middle.size(), middle);
  return line;
}

std::vector<CurvePoint> drawable(const std::vector<CurvePoint>& points) {
  std::vector<CurvePoint> kept;
  for (const CurvePoint& point : points) {
    if (std::isfinite(point.loss) && point.loss > 0) kept.push_back(point);
  }
  return kept;
}

}  // namespace

std::size_t columns_of(const TextLine& line) {
  std::size_t columns = 0;
  for (const Piece& piece : line) columns += columns_of(piece.text);
  return columns;
}

std::string rendered(const TextLine& line, bool color) {
  std::string text;
  for (const Piece& piece : line) {
    const std::string_view sgr = color ? color_of(piece.ink) : "";
    if (sgr.empty()) {
      text += piece.text;
    } else {
      ((((text += "\033[") += sgr) += 'm') += piece.text) += "\033[0m";
    }
  }
  return text;
}

std::vector<TextLine> flowed(const std::vector<Piece>& pieces, std::size_t columns) {
  std::vector<TextLine> lines;
  std::size_t taken = 0;
  for (const Piece& piece : pieces) {
    for (std::string& text : wrapped(piece.text, columns)) {
      const std::size_t needed = columns_of(text);
      if (lines.empty() || taken + 2 + needed > columns) {
        lines.emplace_back();
        taken = 0;
      } else {
        lines.back().push_back({"  "});
        taken += 2;
      }
      lines.back().push_back({std::move(text), piece.ink});
      taken += needed;
    }
  }
  return lines;
}

std::vector<std::string> wrapped(std::string_view text, std::size_t columns) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    std::size_t end = bytes_that_fit(text, columns);
    if (end == 0) {  // a wide character in a single column
      decode_utf8(text, end);
      text.remove_prefix(end);
      continue;
    }
    if (end < text.size()) {
      const std::size_t space = text.substr(0, end + 1).rfind(' ');
      if (space != std::string_view::npos && space > 0) end = space;
    }
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
    if (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  }
  return lines;
}

std::vector<TextLine> draw_curve(const Curve& whole, CurveSize size, Charset charset) {
  Curve curve{drawable(whole.training), drawable(whole.validation), whole.best_possible};
  if (curve.best_possible && !(*curve.best_possible > 0)) curve.best_possible.reset();
  if (size.columns < smallest_curve.columns || size.rows < smallest_curve.rows) return {};
  if (curve.training.empty() && curve.validation.empty()) return {};
  constexpr std::size_t margin = 6;  // the numbers of the loss axis
  const std::size_t rows = size.rows - 2, columns = size.columns - margin - 1;
  const Plot plot(curve, {columns, rows}, charset);
  const std::vector<std::string> numbers = loss_numbers(plot, rows);
  const bool utf8 = charset == Charset::utf8;
  std::vector<TextLine> lines;
  for (std::size_t row = 0; row < rows; ++row) {
    const std::string number = numbers[row].size() < margin ? numbers[row] : "";
    const std::string axis = number.empty() ? (utf8 ? "│" : "|") : (utf8 ? "┤" : "+");
    lines.push_back({{std::string(margin - 1 - number.size(), ' ') + number + " " + axis, Ink::faint}});
    for (Piece& piece : plot.line(row)) lines.back().push_back(std::move(piece));
  }
  std::string axis = std::string(margin, ' ') + (utf8 ? "└" : "+");
  for (std::size_t column = 0; column < columns; ++column) axis += utf8 ? "─" : "-";
  lines.push_back({{axis, Ink::faint}});
  lines.push_back({{std::string(margin + 1, ' ') + step_numbers(plot.last_step(), columns), Ink::faint}});
  return lines;
}

}  // namespace inkling
