// The conversions of fields.h between a setting's value and what a file says.
#include <algorithm>
#include <optional>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/strings.h"
#include "config/fields.h"

namespace inkling {
namespace {

[[noreturn]] void refuse_value(const Setting& setting, const YamlNode& node, std::string_view what) {
  throw Error::input(str(node.place, ": ", setting.key, " ", what, "; write ", describe_allowed(setting)));
}

// Says what a node is that holds no single value.
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

// Returns the text of a number or truth value, which must not stand in quotes.
const std::string& unquoted(const Setting& setting, const YamlNode& node) {
  if (!is_scalar(node)) refuse_value(setting, node, kind_in_words(node.kind));
  if (node.kind == YamlNode::Kind::quoted) {
    refuse_value(setting, node, str("is the text ", shown(node.text), " because of its quotes, which must go"));
  }
  return node.text;
}

template <typename Number>
Number checked(const Setting& setting, const YamlNode& node, const NumberReading<Number>& reading) {
  if (!reading.value) {
    // The reading often says what to write instead, so the range only informs.
    throw Error::input(str(node.place, ": ", setting.key, " is ", shown(node.text), ", which ", reading.problem,
                           "; it takes ", describe_allowed(setting)));
  }
  return *reading.value;
}

bool is_auto(const Setting& setting, const std::string& text) { return setting.takes_auto && text == "auto"; }

Value read_as(const TrueOrFalse&, const Setting& setting, const YamlNode& node) {
  const std::string& text = unquoted(setting, node);
  if (text != "true" && text != "false") refuse_value(setting, node, "is " + shown(text));
  return text == "true";
}

Value read_as(const WholeRange& range, const Setting& setting, const YamlNode& node) {
  const std::string& text = unquoted(setting, node);
  if (is_auto(setting, text)) return Auto{};
  const std::int64_t value = checked(setting, node, read_whole_number(text));
  if (setting.takes_auto && range.zero_was_auto && value == 0) return Auto{};
  if (value < range.lowest || value > range.highest) refuse_value(setting, node, str("is ", value));
  return value;
}

Value read_as(const RealRange& range, const Setting& setting, const YamlNode& node) {
  const std::string& text = unquoted(setting, node);
  if (is_auto(setting, text)) return Auto{};
  const double value = checked(setting, node, read_real_number(text));
  if (setting.takes_auto && range.zero_was_auto && value == 0) return Auto{};
  const bool low = range.lowest_excluded ? value <= range.lowest : value < range.lowest;
  const bool high = range.highest_excluded ? value >= range.highest : value > range.highest;
  if (low || high) refuse_value(setting, node, "is " + node.text);
  return value;
}

const OldWord* find_old_word(const OneOf& choice, const std::string& word) {
  const auto same = [&](const OldWord& old) { return old.before == word; };
  const auto found = std::find_if(choice.old_words.begin(), choice.old_words.end(), same);
  return found == choice.old_words.end() ? nullptr : &*found;
}

std::vector<std::string> words_now(const OneOf& choice, bool with_auto) {
  std::vector<std::string> words = choice.words;
  if (with_auto) words.insert(words.begin(), "auto");
  return words;
}

Value read_as(const OneOf& choice, const Setting& setting, const YamlNode& node) {
  if (!is_scalar(node)) refuse_value(setting, node, kind_in_words(node.kind));
  if (is_auto(setting, node.text)) return Auto{};
  if (const OldWord* old = find_old_word(choice, node.text)) return old->now;
  if (std::find(choice.words.begin(), choice.words.end(), node.text) != choice.words.end()) {
    return node.text == "true" || node.text == "false" ? unquoted(setting, node) : node.text;
  }
  const auto nearest = nearest_name(node.text, words_now(choice, setting.takes_auto));
  if (!nearest) refuse_value(setting, node, "is " + shown(node.text));
  throw Error::input(str(node.place, ": ", setting.key, " is ", shown(node.text), "; did you mean ", *nearest,
                         "? It takes ", describe_allowed(setting)));
}

// Returns the text, which may be anything in UTF-8.
std::string any_text(const Setting& setting, const YamlNode& node) {
  if (!is_scalar(node)) refuse_value(setting, node, kind_in_words(node.kind));
  if (node.kind == YamlNode::Kind::plain && looks_like_no_text(node.text)) {
    throw Error::input(str(node.place, ": ", setting.key, " takes text, and YAML reads ", node.text,
                           " as something else; write \"", node.text, "\" in quotes"));
  }
  if (find_invalid_utf8(node.text)) refuse_value(setting, node, "is not UTF-8 text");
  return node.text;
}

// Returns the text, which may be anything printable but not empty.
std::string free_text(const Setting& setting, const YamlNode& node) {
  const std::string text = any_text(setting, node);
  if (text.empty()) refuse_value(setting, node, "has no value");
  const auto control = std::find_if(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) == 0x7f;
  });
  if (control != text.end()) refuse_value(setting, node, str("holds a control character: ", shown(text)));
  return text;
}

Value read_as(const DeviceName&, const Setting& setting, const YamlNode& node) {
  std::string text = free_text(setting, node);
  if (is_auto(setting, text)) return Auto{};
  if (!find_device(text)) refuse_value(setting, node, "is " + shown(text));
  return text;
}

Value read_as(const Text& form, const Setting& setting, const YamlNode& node) {
  const std::string text = form.may_be_any ? any_text(setting, node) : free_text(setting, node);
  return is_auto(setting, text) ? Value(Auto{}) : Value(text);
}

Value read_as(const TextList& list, const Setting& setting, const YamlNode& node) {
  if (node.kind == YamlNode::Kind::section) refuse_value(setting, node, "is a section");
  const auto read = list.may_be_any ? any_text : free_text;
  if (node.kind != YamlNode::Kind::list) return std::vector<std::string>{read(setting, node)};
  std::vector<std::string> texts;
  for (const YamlNode& item : node.items) texts.push_back(read(setting, item));
  return texts;
}

Value read_as(const PatternList&, const Setting& setting, const YamlNode& node) {
  if (node.kind == YamlNode::Kind::section) refuse_value(setting, node, "is a section");
  if (node.kind == YamlNode::Kind::list && node.items.empty()) refuse_value(setting, node, "is an empty list");
  std::vector<std::string> texts;
  for (const YamlNode& item : node.kind == YamlNode::Kind::list ? node.items : std::vector{node}) {
    texts.push_back(free_text(setting, item));
    const WordsReading<AttentionPattern> reading = read_pattern(texts.back());
    if (!reading.value) refuse_value(setting, item, str("is ", shown(texts.back()), ", which ", reading.problem));
  }
  return texts;
}

Value read_as(const ScalingText&, const Setting& setting, const YamlNode& node) {
  std::string text = free_text(setting, node);
  const WordsReading<RopeScaling> reading = read_rope_scaling(text);
  if (!reading.value) refuse_value(setting, node, str("is ", shown(text), ", which ", reading.problem));
  return text;
}

// Characters that YAML 1.2 does not print as themselves become escapes in quotes.
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
      result += "\\u" + hexadecimal(character, 4, Letters::upper_case);
    }
  }
  return result + "\"";
}

std::string yaml_of(Auto) { return "auto"; }
std::string yaml_of(bool value) { return value ? "true" : "false"; }
std::string yaml_of(std::int64_t value) { return std::to_string(value); }
std::string yaml_of(double value) { return format_shortest(value); }
std::string yaml_of(const std::string& text) { return text_as_yaml(text); }
std::string yaml_of(const std::vector<std::string>& texts) {
  std::vector<std::string> items;
  for (const std::string& text : texts) items.push_back(text_as_yaml(text));
  return "[" + join(items, ", ") + "]";
}

std::string describe(const TrueOrFalse&, bool) { return "true or false"; }

std::string describe(const WholeRange& range, bool takes_auto) {
  return str(takes_auto ? "auto or " : "", "a whole number from ", range.lowest, " to ", range.highest);
}

std::string describe(const RealRange& range, bool takes_auto) {
  const std::string begin = str(takes_auto ? "auto or " : "", "a number ", range.lowest_excluded ? "above " : "from ",
                                format_shortest(range.lowest));
  const std::string_view middle = range.lowest_excluded ? (range.highest_excluded ? " and below " : " and at most ")
                                                        : (range.highest_excluded ? " to below " : " to ");
  return str(begin, middle, format_shortest(range.highest));
}

std::string describe(const OneOf& choice, bool takes_auto) {
  const std::vector<std::string> words = words_now(choice, takes_auto);
  return words.size() == 1 ? words.front() : "one of " + join(words, ", ");
}

std::string describe(const DeviceName&, bool takes_auto) {
  return str(takes_auto ? "auto, " : "", "cpu, cuda or cuda:N");
}
std::string describe(const Text& text, bool takes_auto) { return (takes_auto ? "auto or " : "") + text.form; }
std::string describe(const TextList& texts, bool) { return texts.form + ", or a list [a, b]"; }
std::string describe(const ScalingText&, bool) { return "none, linear FACTOR, or llama3 FACTOR LOW HIGH ORIGINAL"; }
std::string describe(const PatternList&, bool) { return "full, local W, dilated W R, or a list [a, b]"; }

}  // namespace

std::string shown(std::string_view text) {
  constexpr std::size_t longest = 80;
  if (text.size() <= longest) return quote(text);
  return quote(text.substr(0, character_start(text, longest))) + "…";
}

void assign(const Setting& setting, const YamlNode& node) {
  setting.set(std::visit([&](const auto& allowed) { return read_as(allowed, setting, node); }, setting.allowed));
}

std::optional<std::string> note_of_old_word(const Setting& setting, const YamlNode& node) {
  const auto* choice = std::get_if<OneOf>(&setting.allowed);
  const OldWord* old = choice == nullptr ? nullptr : find_old_word(*choice, node.text);
  if (old == nullptr) return std::nullopt;
  return str(setting.key, ": ", old->before, " is called ", old->now, " now");
}

std::string value_as_yaml(const Setting& setting) {
  return std::visit([](const auto& value) { return yaml_of(value); }, setting.get());
}

std::string value_as_json(const Setting& setting) {
  const Value value = setting.get();
  const auto* text = std::get_if<std::string>(&value);
  return text == nullptr ? value_as_yaml(setting) : "\"" + *text + "\"";
}

std::string describe_allowed(const Setting& setting) {
  return std::visit([&](const auto& allowed) { return describe(allowed, setting.takes_auto); }, setting.allowed);
}

std::string_view on_resume_word(OnResume on_resume) {
  switch (on_resume) {
    case OnResume::free:
      return "applies";
    case OnResume::ask:
      return "asks";
    case OnResume::refuse:
      return "refused";
  }
  return "";
}

}  // namespace inkling
