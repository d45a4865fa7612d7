#include "text/line_cuts.h"

#include "base/strings.h"

namespace inkling {

std::size_t cut_within(std::string_view text, std::size_t limit) {
  // The white space begins the next piece: sentencepiece's words carry the space in front of them.
  const std::size_t space = text.find_last_of(" \t\r\v\f", limit);
  if (space != std::string_view::npos && space > 0) return space;
  const std::size_t start = character_start(text, limit);
  // A character that begins farther away is not UTF-8, and then any place is as good as another.
  return start > 0 && limit - start <= 4 ? start : limit;
}

std::size_t next_line_length(std::string_view text, bool more_may_follow) {
  const std::size_t newline = text.substr(0, max_line_bytes).find('\n');
  if (newline != std::string_view::npos) return newline + 1;
  if (text.size() > max_line_bytes) return cut_within(text, max_line_bytes);
  return more_may_follow ? 0 : text.size();
}

std::size_t next_lines_length(std::string_view text, bool more_may_follow) {
  if (text.size() <= part_bytes) return more_may_follow ? 0 : text.size();
  const std::size_t newline = text.rfind('\n', part_bytes - 1);
  return newline == std::string_view::npos ? next_line_length(text, more_may_follow) : newline + 1;
}

}  // namespace inkling
