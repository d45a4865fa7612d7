#include "doctor/page.h"

#include <algorithm>
#include <vector>

#include "base/strings.h"
#include "base/terminal_text.h"

namespace inkling::doctor {
namespace {

constexpr std::size_t label_width = 15;

std::string one_line(std::string_view text) { return printable(text, Charset::utf8); }

// `text` without its first `count` characters, which are moved to the end of `line`.
void move_characters(std::string& text, std::size_t count, std::string& line) {
  std::size_t end = 0;
  while (count-- > 0 && end < text.size()) {
    do {
      ++end;
    } while (end < text.size() && continues_character(text[end]));
  }
  line += text.substr(0, end);
  text.erase(0, end);
}

// The words of `text` in lines of at most `width` characters; a longer word is cut.
std::vector<std::string> wrapped(std::string_view text, std::size_t width) {
  std::vector<std::string> lines(1);
  std::string rest = one_line(text);
  while (!rest.empty()) {
    std::size_t space = rest.find(' ');
    std::string word = rest.substr(0, space);
    rest.erase(0, space == std::string::npos ? rest.size() : space + 1);
    if (word.empty()) continue;
    const std::size_t taken = count_characters(lines.back());
    if (taken > 0 && taken + 1 + count_characters(word) > width) lines.emplace_back();
    if (!lines.back().empty()) lines.back() += ' ';
    while (count_characters(word) > width) {
      move_characters(word, width, lines.back());
      lines.emplace_back();
    }
    lines.back() += word;
  }
  return lines;
}

std::string spaces(std::size_t width, std::string_view beside) {
  const std::size_t taken = count_characters(beside);
  return std::string(width > taken ? width - taken : 0, ' ');
}

// What spaces outside of quotes part. No word is cut, however long: a command is there to be copied.
std::vector<std::string> words_of_command(std::string_view text) {
  std::vector<std::string> words(1);
  char quote = '\0';
  for (const char c : text) {
    if (c == ' ' && quote == '\0') {
      words.emplace_back();
      continue;
    }
    if (c == quote) {
      quote = '\0';
    } else if (quote == '\0' && (c == '\'' || c == '"')) {
      quote = c;
    }
    words.back() += c;
  }
  return words;
}

// A cell that is too long loses its middle.
std::string fitted(const std::string& cell, std::size_t width) {
  std::string rest = one_line(cell), front;
  const std::size_t length = count_characters(rest);
  if (length <= width) return rest;
  const std::size_t kept = width - 3, head = kept / 2;
  move_characters(rest, head, front);
  std::string dropped;
  move_characters(rest, length - kept, dropped);
  return front + "..." + rest;
}

}  // namespace

void Page::heading(std::string_view text) {
  text_ += text_.empty() ? "" : "\n";
  for (const std::string& line : wrapped(text, columns)) text_ += line + "\n";
}

void Page::entry(std::string_view label, std::string_view text) {
  std::string front = str("  ", fitted(std::string(label), label_width));
  front += spaces(label_width + 4, front);
  for (const std::string& line : wrapped(text, columns - label_width - 4)) {
    text_ += front + line + "\n";
    front.assign(label_width + 4, ' ');
  }
}

void Page::note(std::string_view text, std::string_view mark) {
  std::string front = mark.empty() ? "  " : str("  ", mark, " ");
  const std::size_t indent = count_characters(front);
  for (const std::string& line : wrapped(text, columns - indent)) {
    text_ += front + line + "\n";
    front.assign(indent, ' ');
  }
}

void Page::command(std::string_view text) {
  std::string line = "    $";
  for (const std::string& word : words_of_command(one_line(text))) {
    if (count_characters(line) + 1 + count_characters(word) + 2 > columns && !line.ends_with("$")) {
      text_ += line + " \\\n";
      line = "     ";
    }
    line += " " + word;
  }
  text_ += line + "\n";
}

void Page::row(std::span<const std::string> cells, std::span<const std::size_t> widths) {
  std::string line = "  ";
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string cell = fitted(cells[i], widths[i]);
    line += i == 0 ? cell + spaces(widths[i], cell) : spaces(widths[i], cell) + cell;
  }
  line.erase(line.find_last_not_of(' ') + 1);
  text_ += line + "\n";
}

}  // namespace inkling::doctor
