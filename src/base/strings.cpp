#include "base/strings.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace inkling {

std::string join(std::span<const std::string> words, std::string_view separator) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += separator;
    text += words[i];
  }
  return text;
}

std::string format_fixed(double value, int decimals) {
  std::array<char, 400> digits;  // the largest double has 309 digits before the point
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value, std::chars_format::fixed,
                                 std::clamp(decimals, 0, 60));
  return {digits.data(), end.ptr};
}

std::string format_count(std::uint64_t count) {
  std::string text = std::to_string(count);
  for (std::size_t i = text.size(); i > 3; i -= 3) text.insert(i - 3, ",");
  return text;
}

std::string format_bytes(std::uint64_t bytes) {
  if (bytes < 1024) return std::to_string(bytes) + " B";
  constexpr std::array units = {" KiB", " MiB", " GiB", " TiB", " PiB", " EiB"};
  double amount = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; amount >= 1023.95 && unit + 1 < units.size(); ++unit) amount /= 1024;  // 1023.95 would print as 1024.0
  return format_fixed(amount, 1) + units[unit];
}

std::string format_duration(double seconds) {
  if (!(seconds < 1e15)) return "unknown";  // also NaN
  const auto total = static_cast<std::uint64_t>(std::max(0.0, std::round(seconds)));
  if (total < 60) return std::to_string(total) + " s";
  const std::uint64_t hours = total / 3600;
  const std::uint64_t minutes = total / 60 % 60;
  const std::string rest = ":" + padded(total % 60, 2);
  if (hours == 0) return std::to_string(minutes) + rest;
  return std::to_string(hours) + ":" + padded(minutes, 2) + rest;
}

std::string format_shortest(double value) {
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  return {digits.data(), end.ptr};
}

std::string padded(std::uint64_t number, std::size_t digits) {
  const std::string text = std::to_string(number);
  return std::string(digits - std::min(digits, text.size()), '0') + text;
}

std::string hexadecimal(std::uint64_t number, std::size_t digits, Letters letters) {
  const char* const signs = letters == Letters::upper_case ? "0123456789ABCDEF" : "0123456789abcdef";
  std::string text;
  for (; number > 0 || text.size() < digits; number >>= 4) text.insert(text.begin(), signs[number & 15]);
  return text;
}

std::optional<std::int64_t> whole_number(std::string_view digits, int base) {
  std::uint64_t number = 0;  // without a sign, so that none is read
  const char* const last = digits.data() + digits.size();
  const auto [end, error] = std::from_chars(digits.data(), last, number, base);
  if (error != std::errc() || end != last || number > INT64_MAX) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

namespace {

// Upper and lower case, '-' and '_' count as the same letter: they are the commonest slips.
char folded(char letter) {
  if (letter == '-') return '_';
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

// The number of insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b` (optimal string
// alignment).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before_last.swap(last);
    last.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = folded(a[i - 1]) == folded(b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      const bool swapped =
          i > 1 && j > 1 && folded(a[i - 1]) == folded(b[j - 2]) && folded(a[i - 2]) == folded(b[j - 1]);
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row[b.size()];
}

// Appends one code point, or its escape where a terminal would act on it or the quotes would end.
void append_escaped(std::string& out, char32_t code_point) {
  const bool control = code_point < 0x20 || (code_point >= 0x7f && code_point < 0xa0);
  if (code_point == '"' || code_point == '\\') {
    (out += '\\') += static_cast<char>(code_point);
  } else if (code_point == '\n') {
    out += "\\n";
  } else if (code_point == '\r') {
    out += "\\r";
  } else if (code_point == '\t') {
    out += "\\t";
  } else if (control) {
    out += code_point < 0x80 ? "\\x" + hexadecimal(code_point, 2) : "\\u" + hexadecimal(code_point, 4);
  } else {
    append_utf8(out, code_point);
  }
}

}  // namespace

std::optional<std::string> nearest_name(std::string_view word, std::span<const std::string> known) {
  std::optional<std::string> nearest;
  std::size_t nearest_distance = 0;
  for (const std::string& name : known) {
    const std::size_t longer = std::max(word.size(), name.size());
    const std::size_t shorter = std::min(word.size(), name.size());
    const std::size_t allowed = std::max<std::size_t>(1, longer / 3);
    if (shorter == 0 || longer - shorter > allowed) continue;
    const std::size_t distance = edit_distance(word, name);
    if (distance > allowed || distance == shorter) continue;  // at `shorter` edits nothing of the word is left
    if (!nearest || distance < nearest_distance) {
      nearest = name;
      nearest_distance = distance;
    }
  }
  return nearest;
}

std::string quote(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const std::size_t valid = find_invalid_utf8(text).value_or(text.size());
    for (std::size_t offset = 0; offset < valid;) append_escaped(out, decode_utf8(text, offset));
    text.remove_prefix(valid);
    if (text.empty()) break;
    out += "\\x" + hexadecimal(static_cast<unsigned char>(text.front()), 2);
    text.remove_prefix(1);
  }
  return out + '"';
}

std::string shell_word(std::string_view word) {
  constexpr std::string_view plain = "/._-+=:@%0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  if (!word.empty() && word.front() != '-' && word.find_first_not_of(plain) == std::string_view::npos) {
    return std::string(word);
  }
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace inkling
