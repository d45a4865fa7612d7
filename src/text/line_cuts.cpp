#include "text/line_cuts.h"

#include <algorithm>

namespace inkling {

std::size_t cut_within(std::string_view text, std::size_t limit) {
  // The white space begins the next piece: sentencepiece's words carry the space in front of them.
  const std::size_t space = text.find_last_of(" \t\r\v\f", limit);
  if (space != std::string_view::npos && space > 0) return space;
  const auto continues_character = [&](std::size_t offset) {
    return (static_cast<unsigned char>(text[offset]) & 0xc0) == 0x80;
  };
  std::size_t length = limit;
  while (length > 0 && limit - length < 4 && continues_character(length)) --length;
  // Four continuation bytes in a row are not UTF-8, and then any place is as good as another.
  return length > 0 && !continues_character(length) ? length : limit;
}

std::size_t next_line_length(std::string_view text, bool more_may_follow) {
  const std::size_t newline = text.substr(0, max_line_bytes).find('\n');
  if (newline != std::string_view::npos) return newline + 1;
  if (text.size() > max_line_bytes) return cut_within(text, max_line_bytes);
  return more_may_follow ? 0 : text.size();
}

}  // namespace inkling
