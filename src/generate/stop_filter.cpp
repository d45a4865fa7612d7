#include "generate/stop_filter.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace inkling {

StopFilter::StopFilter(std::vector<std::string> stops) : stops_(std::move(stops)) {
  for (const std::string& stop : stops_) {
    if (stop.empty()) throw Error::input("--stop is empty: every text holds the empty string; leave the flag out");
  }
}

// Returns how many bytes at the end of waiting_ may be the beginning of a stop string.
std::size_t StopFilter::held_back() const {
  std::size_t longest = 0;
  for (const std::string& stop : stops_) {
    for (std::size_t length = std::min(stop.size() - 1, waiting_.size()); length > longest; --length) {
      if (std::string_view(waiting_).substr(waiting_.size() - length) == std::string_view(stop).substr(0, length)) {
        longest = length;
      }
    }
  }
  return longest;
}

std::string StopFilter::push(std::string_view piece) {
  if (found_) return {};
  waiting_ += piece;
  std::size_t start = 0;
  std::size_t end = std::string::npos;
  for (const std::string& stop : stops_) {
    const std::size_t at = waiting_.find(stop);
    if (at == std::string::npos) continue;
    const std::size_t stop_end = at + stop.size();
    if (stop_end < end || (stop_end == end && at < start)) {
      start = at;
      end = stop_end;
    }
  }
  found_ = end != std::string::npos;
  std::string certain = waiting_.substr(0, found_ ? start : waiting_.size() - held_back());
  waiting_.erase(0, found_ ? waiting_.size() : certain.size());
  return certain;
}

std::string StopFilter::finish() { return std::exchange(waiting_, {}); }

}  // namespace inkling
