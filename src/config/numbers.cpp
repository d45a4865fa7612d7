// The readers of numbers of yaml.h.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/strings.h"
#include "config/yaml.h"

namespace inkling {
namespace {

constexpr std::string_view digits = "0123456789";

bool all_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of(digits) == std::string_view::npos;
}

std::string_view without_minus(std::string_view text) {
  if (!text.empty() && text.front() == '-') text.remove_prefix(1);
  return text;
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return result;
}

bool has_leading_zero(std::string_view text) {
  const std::string_view number = without_minus(text);
  return number.size() > 1 && number[0] == '0' && digits.find(number[1]) != std::string_view::npos;
}

// The form is -? (digits [. digits*] | . digits) [e [+-] digits].
bool is_real(std::string_view text) {
  text = without_minus(text);
  const std::size_t exponent = text.find_first_of("eE");
  if (exponent != std::string_view::npos) {
    std::string_view power = text.substr(exponent + 1);
    if (!power.empty() && (power.front() == '+' || power.front() == '-')) power.remove_prefix(1);
    if (!all_digits(power)) return false;
    text = text.substr(0, exponent);
  }
  const std::size_t point = text.find('.');
  if (point == std::string_view::npos) return all_digits(text);
  const std::string_view before = text.substr(0, point), after = text.substr(point + 1);
  return (before.empty() || all_digits(before)) && (after.empty() ? !before.empty() : all_digits(after));
}

std::optional<double> convert_real(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<std::string> whole_in_base(std::string_view prefixed, std::string_view prefix, int base) {
  if (!prefixed.starts_with(prefix)) return std::nullopt;
  const auto value = whole_number(prefixed.substr(prefix.size()), base);
  return value ? std::optional(std::to_string(*value)) : std::nullopt;
}

// Says whether commas stand between groups of three digits, as in 1,003,854.
bool has_thousands_separators(std::string_view text) {
  text = without_minus(text);
  const std::size_t first = text.find(',');
  if (first == std::string_view::npos || first > 3 || !all_digits(text.substr(0, first))) return false;
  for (text.remove_prefix(first); !text.empty(); text.remove_prefix(4)) {
    if (text.size() < 4 || text[0] != ',' || !all_digits(text.substr(1, 3))) return false;
  }
  return true;
}

// Removes what a strict reader refuses in 1_000, 1,000, +5 and 007. A comma elsewhere is a decimal point.
std::string plain_digits(std::string_view text) {
  const bool thousands = has_thousands_separators(text);
  std::string result;
  for (const char c : text) {
    if (c == ',' && !thousands) result += '.';
    if (c != '_' && c != ',' && c != '+') result += c;
  }
  while (has_leading_zero(result)) result.erase(result.find('0'), 1);
  return result;
}

// Returns what a person who wrote `text` for a whole number most likely means; empty if nobody can tell.
std::string likely_whole(std::string_view text) {
  for (const auto& [prefix, base] :
       std::array<std::pair<std::string_view, int>, 3>{{{"0x", 16}, {"0o", 8}, {"0b", 2}}}) {
    if (const auto value = whole_in_base(lower(text), prefix, base)) return *value;
  }
  std::string plain = plain_digits(text);
  if (all_digits(without_minus(plain))) return plain;
  if (is_real(plain)) {
    const auto value = convert_real(plain);
    if (value && std::abs(*value) < 1e15 && std::trunc(*value) == *value) {
      return std::to_string(static_cast<std::int64_t>(*value));
    }
  }
  return "";
}

std::string advice(const std::string& likely) { return likely.empty() ? "" : "; write " + likely; }

std::string leading_zero_problem(std::string_view text) {
  return str("begins with 0, which some programs read as an octal number; write ", plain_digits(text));
}

}  // namespace

NumberReading<std::int64_t> read_whole_number(std::string_view text) {
  if (!all_digits(without_minus(text))) return {std::nullopt, "is not a whole number" + advice(likely_whole(text))};
  if (has_leading_zero(text)) return {std::nullopt, leading_zero_problem(text)};
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return {std::nullopt, "is too large"};
  return {value, ""};
}

NumberReading<double> read_real_number(std::string_view text) {
  const std::string word = lower(text);
  const std::string plain_word = word.substr(std::min(word.find_first_not_of("+-."), word.size()));
  if (plain_word == "nan" || plain_word == "inf" || plain_word == "infinity") {
    return {std::nullopt, "is not a finite number"};
  }
  if (!is_real(text)) {
    std::string likely = likely_whole(text);
    if (likely.empty() && is_real(plain_digits(text))) likely = plain_digits(text);
    return {std::nullopt, "is not a number" + advice(likely)};
  }
  if (has_leading_zero(text)) return {std::nullopt, leading_zero_problem(text)};
  const std::size_t exponent = std::min(text.find_first_of("eE"), text.size());
  const bool is_zero = text.substr(0, exponent).find_first_of("123456789") == std::string_view::npos;
  if (is_zero) return {0.0, ""};
  const auto value = convert_real(text);
  if (value && *value != 0) return {value, ""};
  return {std::nullopt, "is too large or too close to 0 for a number"};
}

bool looks_like_no_text(std::string_view text) {
  constexpr std::array<std::string_view, 13> words{"true", "false", "yes", "no",   "on",   "off",  "y",
                                                   "n",    "null",  "~",   ".nan", ".inf", "-.inf"};
  const std::string word = lower(text);
  return std::find(words.begin(), words.end(), word) != words.end() || !likely_whole(text).empty() ||
         is_real(plain_digits(text));
}

}  // namespace inkling
