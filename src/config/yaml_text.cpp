#include "config/yaml_text.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/strings.h"

namespace inkling {
namespace {

constexpr std::size_t max_config_bytes = 256 * 1024;

// Turns CR LF into LF and removes a byte order mark.
std::string normalised(std::string_view text) {
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  std::string result;
  result.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') continue;
    result += text[i];
  }
  return result;
}

bool is_control(char character) {
  const auto byte = static_cast<unsigned char>(character);
  return (byte < 0x20 && character != '\n' && character != '\t') || byte == 0x7f;
}

// Says whether the quotes that open the text close again on the same line.
bool closes_on_its_line(std::string_view text) {
  const char quote = text.front();
  for (std::size_t i = 1; i < text.size() && text[i] != '\n'; ++i) {
    if (quote == '"' && text[i] == '\\') {
      ++i;
      if (i < text.size() && text[i] == '\n') return false;
    } else if (text[i] == quote) {
      const bool doubled = quote == '\'' && i + 1 < text.size() && text[i + 1] == quote;
      if (!doubled) return true;
      ++i;
    }
  }
  return false;
}

}  // namespace

YamlText::YamlText(std::string_view text, std::string_view name) : name_(name) {
  if (text.size() > max_config_bytes) {
    throw Error::input(str(name, ": the file has more than ", format_bytes(max_config_bytes),
                           "; give the YAML file, not the text to train on"));
  }
  contents_ = normalised(text);
  line_starts_.push_back(0);
  for (std::size_t i = 0; i < contents_.size(); ++i) {
    if (contents_[i] == '\n') line_starts_.push_back(i + 1);
  }
  check_lines();
}

void YamlText::check_lines() const {
  const std::optional<std::size_t> invalid = find_invalid_utf8(contents_);
  for (std::size_t line = 0; line < line_starts_.size(); ++line) {
    const std::size_t end = line + 1 < line_starts_.size() ? line_starts_[line + 1] : contents_.size();
    const std::string_view text = std::string_view(contents_).substr(line_starts_[line], end - line_starts_[line]);
    const auto refuse = [&](std::size_t column, std::string_view what) {
      throw Error::input(str(place(static_cast<int>(line), static_cast<int>(column)), ": ", what));
    };
    if (invalid && *invalid >= line_starts_[line] && *invalid < end) {
      refuse(*invalid - line_starts_[line], "this is not UTF-8 text; save the file as UTF-8");
    }
    const auto control = std::find_if(text.begin(), text.end(), is_control);
    if (control != text.end()) {
      refuse(static_cast<std::size_t>(control - text.begin()),
             str("the control character ", quote(std::string(1, *control)), " stands here; remove it"));
    }
    const std::size_t first = std::min(text.find_first_not_of(" \t\n"), text.size());
    const std::size_t tab = text.substr(0, first).find('\t');
    if (tab != std::string_view::npos && first < text.size() && text[first] != '#') {
      refuse(tab, "a tab in the indentation; indent with spaces");
    }
    if (!text.empty() && text.front() == '%') {
      refuse(0, "YAML directives (%) are not used here; remove the line");
    }
  }
}

std::size_t YamlText::offset(int line, int column) const {
  if (line < 0 || static_cast<std::size_t>(line) >= line_starts_.size()) return contents_.size();
  return std::min(line_starts_[static_cast<std::size_t>(line)] + static_cast<std::size_t>(std::max(column, 0)),
                  contents_.size());
}

std::string YamlText::place(int line, int column) const {
  const std::size_t end = offset(line, column);
  const std::size_t begin = std::min(offset(line, 0), end);
  const std::uint64_t characters = count_characters(contents().substr(begin, end - begin));
  return str(name_, ":", std::max(line, 0) + 1, ":", characters + 1);
}

char YamlText::at(int line, int column) const {
  const std::size_t position = offset(line, column);
  return position < contents_.size() ? contents_[position] : '\n';
}

YamlNode::Kind YamlText::check_scalar(int line, int column, std::string_view value) const {
  const std::string_view rest = std::string_view(contents_).substr(offset(line, column));
  const auto refuse = [&](std::string_view what) { throw Error::input(str(place(line, column), ": ", what)); };
  const char first = rest.empty() ? '\n' : rest.front();
  if (first == '"' || first == '\'') {
    if (!closes_on_its_line(rest)) refuse("the quotes that open here do not close on this line; close them");
    return YamlNode::Kind::quoted;
  }
  if (first == '|' || first == '>') {
    refuse("a text over several lines (| or >) is not used here; write it on one line, in quotes if need be");
  }
  if (!rest.starts_with(value)) {
    refuse("this value goes on in the next line; write it on one line, or indent the next line as its own key");
  }
  return YamlNode::Kind::plain;
}

}  // namespace inkling
