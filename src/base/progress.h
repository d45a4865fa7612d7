// A live progress bar on a terminal, plain lines (at most one in ten seconds) elsewhere. The bar is one line that never
// wraps: where the terminal is narrow it leaves out what matters least, down to the per cent alone.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace inkling {

// Prints nothing before the first second has passed, so short work stays silent.
class Progress {
 public:
  // `unit` is "B" for bytes (shown as MB/s) or a plural noun; a total of 0 means that it is unknown. `already` of the
  // total are done before this work begins, and say nothing of its pace.
  Progress(std::string label, std::uint64_t total, std::string unit, std::uint64_t already = 0);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(std::uint64_t done);  // cheap: draws at most ten times a second
  void clear();                     // wipes the bar, so that another line can be printed

 private:
  void draw(double elapsed_seconds);
  std::string line(double elapsed_seconds, std::size_t columns) const;  // the fullest that fits

  std::string label_;
  std::uint64_t total_;
  std::string unit_;
  std::uint64_t already_, done_;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point last_draw_;
  bool drawn_ = false;
  bool terminal_;
};

}  // namespace inkling
