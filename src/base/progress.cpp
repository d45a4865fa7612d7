#include "base/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "base/log.h"
#include "base/strings.h"

namespace inkling {

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr Seconds silence{1.0};
constexpr Seconds between_bars{0.1};
constexpr Seconds between_lines{10.0};

std::size_t terminal_columns() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string bar(double fraction) {
  constexpr std::size_t width = 20;
  const auto filled = static_cast<std::size_t>(fraction * width);
  return "[" + std::string(filled, '#') + std::string(width - filled, '.') + "] ";
}

}  // namespace

Progress::Progress(std::string label, std::uint64_t total, std::string unit)
    : label_(std::move(label)),
      total_(total),
      unit_(std::move(unit)),
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

void Progress::draw(double elapsed_seconds) {
  const double rate = static_cast<double>(done_) / elapsed_seconds;
  std::string line = label_ + ": ";
  if (total_ > 0) {
    const double fraction = std::min(1.0, static_cast<double>(done_) / static_cast<double>(total_));
    if (terminal_) line += bar(fraction);
    line += format_fixed(std::floor(100 * fraction), 0) + " %, ";
  }
  if (unit_ == "B")
    line += format_fixed(static_cast<double>(done_) / 1e6, 1) + " MB, " + format_fixed(rate / 1e6, 1) + " MB/s";
  else
    line += format_count(done_) + " " + unit_ + ", " + format_fixed(rate, rate < 10 ? 1 : 0) + "/s";
  if (total_ > done_ && done_ > 0) line += ", " + format_duration(static_cast<double>(total_ - done_) / rate) + " left";
  if (!terminal_) return log_info(line);
  line = "\r" + line.substr(0, terminal_columns() - 1) + "\033[K";
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
  drawn_ = true;
}

void Progress::clear() {
  if (!drawn_) return;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
  drawn_ = false;
}

}  // namespace inkling
