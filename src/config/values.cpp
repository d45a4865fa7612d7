#include "config/values.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "base/error.h"
#include "base/strings.h"
#include "config/numbers.h"

namespace inkling {
namespace {

[[noreturn]] void refuse(const Setting& setting, const YamlNode& node, std::string_view what) {
  throw Error::input(str(node.place, ": ", setting.key, " ", what, "; write ", describe_allowed(setting)));
}

// "is a list" and the like, for a node that is no single value.
std::string_view kind_in_words(YamlNode::Kind kind) {
  switch (kind) {
    case YamlNode::Kind::nothing:
      return "has no value";
    case YamlNode::Kind::list:
      return "is a list, but takes one value";
    default:
      return "is a section, but takes one value";
  }
}

bool is_scalar(const YamlNode& node) {
  return node.kind == YamlNode::Kind::plain || node.kind == YamlNode::Kind::quoted ||
         node.kind == YamlNode::Kind::verbatim;
}

// The text of a number or truth value, which must not stand in quotes.
const std::string& unquoted(const Setting& setting, const YamlNode& node) {
  if (!is_scalar(node)) refuse(setting, node, kind_in_words(node.kind));
  if (node.kind == YamlNode::Kind::quoted) {
    refuse(setting, node, str("is the text ", shown(node.text), " because of its quotes, which must go"));
  }
  return node.text;
}

template <typename Number>
Number checked(const Setting& setting, const YamlNode& node, const NumberReading<Number>& reading) {
  if (!reading.value) {
    // The reading may know the very text to write; the range then only informs.
    throw Error::input(str(node.place, ": ", setting.key, " is ", shown(node.text), ", which ", reading.problem,
                           "; it takes ", describe_allowed(setting)));
  }
  return *reading.value;
}

std::int64_t whole_number(const Setting& setting, const YamlNode& node) {
  const auto& range = std::get<WholeRange>(setting.allowed);
  const std::string& text = unquoted(setting, node);
  if (range.zero_is_auto && text == "auto") return 0;
  const std::int64_t value = checked(setting, node, read_whole_number(text));
  if (value < range.lowest || value > range.highest) refuse(setting, node, str("is ", value));
  return value;
}

double real_number(const Setting& setting, const YamlNode& node) {
  const double value = checked(setting, node, read_real_number(unquoted(setting, node)));
  const auto& range = std::get<RealRange>(setting.allowed);
  const bool low = range.lowest_excluded ? value <= range.lowest : value < range.lowest;
  const bool high = range.highest_excluded ? value >= range.highest : value > range.highest;
  if (low || high) refuse(setting, node, "is " + node.text);
  return value;
}

bool truth_value(const Setting& setting, const YamlNode& node) {
  const std::string& text = unquoted(setting, node);
  if (text != "true" && text != "false") refuse(setting, node, "is " + shown(text));
  return text == "true";
}

void check_choice(const Setting& setting, const YamlNode& node, const OneOf& choice) {
  if (std::find(choice.names.begin(), choice.names.end(), node.text) != choice.names.end()) return;
  const auto nearest = nearest_name(node.text, choice.names);
  if (!nearest) refuse(setting, node, "is " + shown(node.text));
  throw Error::input(str(node.place, ": ", setting.key, " is ", shown(node.text), "; did you mean ", *nearest,
                         "? It takes ", describe_allowed(setting)));
}

void check_free_text(const Setting& setting, const YamlNode& node, const FreeText& free_text) {
  const std::string& text = node.text;
  if (text.empty()) refuse(setting, node, "has no value");
  if (find_invalid_utf8(text)) refuse(setting, node, "is not UTF-8 text");
  const auto control = std::find_if(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) == 0x7f;
  });
  if (control != text.end()) refuse(setting, node, str("holds a control character: ", shown(text)));
  if (free_text.accepts != nullptr && !free_text.accepts(text)) refuse(setting, node, "is " + shown(text));
}

std::string text_value(const Setting& setting, const YamlNode& node) {
  if (!is_scalar(node)) refuse(setting, node, kind_in_words(node.kind));
  if (const auto* choice = std::get_if<OneOf>(&setting.allowed)) {
    check_choice(setting, node, *choice);
    return node.text;
  }
  if (node.kind == YamlNode::Kind::plain && looks_like_no_text(node.text)) {
    throw Error::input(str(node.place, ": ", setting.key, " takes text, and YAML reads ", node.text,
                           " as something else; write \"", node.text, "\" in quotes"));
  }
  check_free_text(setting, node, std::get<FreeText>(setting.allowed));
  return node.text;
}

std::vector<std::string> text_list(const Setting& setting, const YamlNode& node) {
  if (node.kind == YamlNode::Kind::section) refuse(setting, node, "is a section");
  if (node.kind != YamlNode::Kind::list) return {text_value(setting, node)};
  std::vector<std::string> values;
  for (const YamlNode& item : node.items) values.push_back(text_value(setting, item));
  return values;
}

// What YAML 1.2 does not print as itself goes into quotes as an escape.
std::string text_as_yaml(const std::string& text) {
  constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_/";
  constexpr std::string_view others = "0123456789.-+";
  const bool plain = !text.empty() && letters.find(text.front()) != std::string_view::npos &&
                     text.find_first_not_of(str(letters, others)) == std::string::npos && !looks_like_no_text(text);
  if (plain) return text;
  std::string result = "\"";
  for (std::size_t offset = 0; offset < text.size();) {
    const char32_t character = decode_utf8(text, offset);
    const bool printable =
        (character >= 0x20 && character < 0x7f) || (character >= 0xa0 && character != 0x2028 && character != 0x2029 &&
                                                    character != 0xfeff && character != 0xfffe && character != 0xffff);
    if (character == '"' || character == '\\') {
      result += '\\';
      result += static_cast<char>(character);
    } else if (printable) {
      append_utf8(result, character);
    } else {
      std::ostringstream escape;
      escape << "\\u" << std::hex << std::uppercase;
      escape.width(4);
      escape.fill('0');
      escape << static_cast<std::uint32_t>(character);
      result += escape.str();
    }
  }
  return result + "\"";
}

std::string describe_range(const RealRange& range) {
  if (range.lowest_excluded) {
    return str("a number above ", format_shortest(range.lowest),
               range.highest_excluded ? " and below " : " and at most ", format_shortest(range.highest));
  }
  return str("a number from ", format_shortest(range.lowest), range.highest_excluded ? " to below " : " to ",
             format_shortest(range.highest));
}

}  // namespace

std::string shown(std::string_view text) {
  constexpr std::size_t longest = 80;
  if (text.size() <= longest) return quote(text);
  std::size_t end = longest;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // not inside a character
  return quote(text.substr(0, end)) + "…";
}

void assign(const Setting& setting, const YamlNode& node) {
  std::visit(
      [&](auto* member) {
        using Type = std::remove_pointer_t<decltype(member)>;
        if constexpr (std::is_same_v<Type, bool>) {
          *member = truth_value(setting, node);
        } else if constexpr (std::is_integral_v<Type>) {
          *member = static_cast<Type>(whole_number(setting, node));
        } else if constexpr (std::is_same_v<Type, double>) {
          *member = real_number(setting, node);
        } else if constexpr (std::is_same_v<Type, std::string>) {
          *member = text_value(setting, node);
        } else {
          *member = text_list(setting, node);
        }
      },
      setting.member);
}

std::string value_as_yaml(const Setting& setting) {
  const auto* const whole = std::get_if<WholeRange>(&setting.allowed);
  const bool zero_is_auto = whole != nullptr && whole->zero_is_auto;
  return std::visit(
      [zero_is_auto](const auto* member) -> std::string {
        using Type = std::remove_cv_t<std::remove_pointer_t<decltype(member)>>;
        if constexpr (std::is_same_v<Type, bool>) {
          return *member ? "true" : "false";
        } else if constexpr (std::is_integral_v<Type>) {
          return zero_is_auto && *member == 0 ? "auto" : std::to_string(*member);
        } else if constexpr (std::is_same_v<Type, double>) {
          return format_shortest(*member);
        } else if constexpr (std::is_same_v<Type, std::string>) {
          return text_as_yaml(*member);
        } else {
          std::vector<std::string> items;
          for (const std::string& item : *member) items.push_back(text_as_yaml(item));
          return "[" + join(items, ", ") + "]";
        }
      },
      setting.member);
}

std::string describe_allowed(const Setting& setting) {
  if (const auto* whole = std::get_if<WholeRange>(&setting.allowed)) {
    if (whole->zero_is_auto) return str("auto or a whole number from 1 to ", whole->highest);
    return str("a whole number from ", whole->lowest, " to ", whole->highest);
  }
  if (const auto* real = std::get_if<RealRange>(&setting.allowed)) return describe_range(*real);
  if (const auto* choice = std::get_if<OneOf>(&setting.allowed)) {
    return choice->names.size() == 1 ? choice->names.front() : "one of " + join(choice->names, ", ");
  }
  if (const auto* text = std::get_if<FreeText>(&setting.allowed)) {
    const bool list = std::holds_alternative<std::vector<std::string>*>(setting.member);
    return list ? str(text->form, ", or a list [a, b]") : text->form;
  }
  return "true or false";
}

}  // namespace inkling
