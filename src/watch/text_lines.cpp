#include "watch/text_lines.h"

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

}  // namespace inkling
