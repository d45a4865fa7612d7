#include "base/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "base/terminal_text.h"

namespace inkling {

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr Seconds silence{1.0};
constexpr Seconds between_bars{0.1};
constexpr Seconds between_lines{10.0};

std::string bar(double fraction, std::size_t width) {
  const auto filled = static_cast<std::size_t>(fraction * static_cast<double>(width));
  return "[" + std::string(filled, '#') + std::string(width - filled, '.') + "] ";
}

}  // namespace

Progress::Progress(std::string label, std::uint64_t total, std::string unit, std::uint64_t already)
    : label_(std::move(label)),
      total_(total),
      unit_(std::move(unit)),
      already_(already),
      done_(already),
      start_(Clock::now()),
      last_draw_(start_),
      terminal_(stderr_is_terminal()) {}

Progress::~Progress() { clear(); }

void Progress::update(std::uint64_t done) {
  done_ = done;
  const Clock::time_point now = Clock::now();
  if (now - start_ < silence) return;
  if (now - last_draw_ < (terminal_ ? between_bars : between_lines)) return;
  last_draw_ = now;
  draw(Seconds(now - start_).count());
}

// What there is to say, and how wide a bar, from everything to the per cent alone.
std::string Progress::line(double elapsed_seconds, std::size_t columns) const {
  const double rate = static_cast<double>(done_ - std::min(already_, done_)) / elapsed_seconds;
  const bool bytes = unit_ == "B";
  const std::string label = label_ + ": ";
  const std::string count = bytes ? format_fixed(static_cast<double>(done_) / 1e6, 1) + " MB"
                                  : format_count(done_) + (unit_.empty() ? "" : " ") + unit_;
  const std::string speed =
      bytes ? format_fixed(rate / 1e6, 1) + " MB/s" : format_fixed(rate, rate < 10 ? 1 : 0) + "/s";
  const auto said = [](std::initializer_list<std::string_view> parts) {
    std::string text;
    for (const std::string_view part : parts) text += str(text.empty() || part.empty() ? "" : ", ", part);
    return text;
  };
  const auto first_that_fits = [&](std::initializer_list<std::string> lines) {
    for (const std::string& each : lines) {
      if (columns_of(each) <= columns) return each;
    }
    return shortened(*(lines.end() - 1), columns, Charset::ascii);
  };
  if (total_ == 0 && !terminal_) return label + said({count, speed});
  if (total_ == 0) return first_that_fits({label + said({count, speed}), said({count, speed}), count});
  const double fraction = std::min(1.0, static_cast<double>(done_) / static_cast<double>(total_));
  const std::string percent = format_fixed(std::floor(100 * fraction), 0) + " %";
  const bool ends = total_ > done_ && done_ > already_;
  const std::string left = ends ? format_duration(static_cast<double>(total_ - done_) / rate) + " left" : "";
  const std::string all = said({percent, count, speed, left}), most = said({percent, speed, left});
  if (!terminal_) return label + all;
  return first_that_fits({label + bar(fraction, 20) + all, label + bar(fraction, 10) + all, label + all, label + most,
                          label + said({percent, left}), said({percent, left}), percent});
}

// The cursor goes back to the line's beginning. A terminal that is made narrower breaks a line that no longer fits
// into several, and keeps the cursor at the character where it was: clearing to the end of the screen from there
// leaves nothing of the line behind. Wrapping (DECAWM) is off while the line is written, for a terminal that is
// narrower already than it says.
void Progress::draw(double elapsed_seconds) {
  const std::size_t columns = terminal_size(STDERR_FILENO).columns;
  const std::string text = line(elapsed_seconds, columns > 0 ? columns - 1 : 79);
  if (!terminal_) return log_info(text);
  const std::string drawn = "\r\033[?7l" + text + "\033[?7h\033[J\r";
  std::fwrite(drawn.data(), 1, drawn.size(), stderr);
  std::fflush(stderr);
  drawn_ = true;
}

void Progress::clear() {
  if (!drawn_) return;
  std::fputs("\r\033[J", stderr);
  std::fflush(stderr);
  drawn_ = false;
}

}  // namespace inkling
