#include "formats/json.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/strings.h"
#include "formats/model_place.h"

namespace inkling {

namespace {

using Json = nlohmann::json;

[[noreturn]] void refuse_syntax(std::size_t byte) { throw JsonError("this is not JSON", byte); }

// The 16 bits of the escape \uXXXX at `at`; none if there is no such escape.
std::optional<std::int64_t> escaped_unit(std::string_view text, std::size_t at) {
  if (at + 6 > text.size() || text.substr(at, 2) != "\\u") return std::nullopt;
  return whole_number(text.substr(at + 2, 4), 16);
}

// Calls found(offset) for the escape of each half of a surrogate pair that is not followed or preceded by the other.
template <class Found>
void for_each_lone_surrogate(std::string_view text, const Found& found) {
  for (std::size_t at = text.find('\\'); at < text.size(); at = text.find('\\', at)) {
    const std::int64_t unit = escaped_unit(text, at).value_or(0);
    const std::int64_t next = escaped_unit(text, at + 6).value_or(0);
    const bool high = unit >= 0xD800 && unit < 0xDC00, low = unit >= 0xDC00 && unit < 0xE000;
    const bool pair = high && next >= 0xDC00 && next < 0xE000;
    if (low || (high && !pair)) found(at);
    at += pair ? 12 : 2;  // an escaped backslash begins no escape
  }
}

// `text` itself, or where it has lone surrogates, `copy`: the same with \ufffd in their places, and as long.
std::string_view with_whole_characters(std::string_view text, std::string& copy) {
  for_each_lone_surrogate(text, [&](std::size_t at) {
    if (copy.empty()) copy = text;
    copy.replace(at, 6, "\\ufffd");
  });
  return copy.empty() ? text : copy;
}

// Passes the library's events on as ours.
class LibraryEvents final : public nlohmann::json_sax<Json> {
 public:
  explicit LibraryEvents(JsonEvents& events) : events_(events) {}

  bool null() override { return pass(nullptr); }
  bool boolean(bool value) override { return pass(value); }
  bool number_integer(std::int64_t value) override { return pass(value); }
  bool number_unsigned(std::uint64_t value) override { return pass(value); }
  bool number_float(double value, const std::string&) override { return pass(value); }
  bool string(std::string& value) override { return pass(std::string_view(value)); }
  bool binary(Json::binary_t&) override { return true; }  // never in a text

  bool start_object(std::size_t) override { return events_.open_object(), true; }
  bool start_array(std::size_t) override { return events_.open_list(), true; }
  bool end_object() override { return events_.close(), true; }
  bool end_array() override { return events_.close(), true; }
  bool key(std::string& name) override { return events_.name(name), true; }

  bool parse_error(std::size_t byte, const std::string&, const Json::exception& error) override {
    if (dynamic_cast<const Json::parse_error*>(&error) != nullptr) refuse_syntax(byte);
    throw JsonError("this JSON holds a number out of range", byte);
  }

 private:
  bool pass(const JsonScalar& value) { return events_.scalar(value), true; }

  JsonEvents& events_;
};

// Names, stored one behind the other: for short names a set would take ten times the memory.
class Names {
 public:
  void add(std::string_view name) {
    text_ += name;
    ends_.push_back(text_.size());
  }

  void refuse_twice_given() const {
    std::vector<std::string_view> sorted;
    sorted.reserve(ends_.size());
    std::size_t begin = 0;
    for (const std::size_t end : ends_) {
      sorted.push_back(std::string_view(text_).substr(begin, end - begin));
      begin = end;
    }
    std::sort(sorted.begin(), sorted.end());
    const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
    if (twice != sorted.end()) throw Error::input(str("the name ", quote(*twice), " is given twice"));
  }

 private:
  std::string text_;
  std::vector<std::size_t> ends_;
};

class RuleEvents final : public JsonEvents {
 public:
  explicit RuleEvents(JsonRules rules) : rules_(rules) {}

  void open_object() override { open(); }
  void open_list() override { open(); }
  void close() override {
    open_.back().refuse_twice_given();
    open_.pop_back();
  }
  void name(std::string_view name) override {
    if (open_.size() <= rules_.deepest_unique) open_.back().add(name);
  }
  void scalar(const JsonScalar&) override {}

 private:
  // Code that walks through a value calls itself once for each level, so deep nesting would overflow the stack.
  void open() {
    if (open_.size() == rules_.deepest) {
      throw Error::input(str("this JSON nests deeper than ", rules_.deepest, " levels"));
    }
    open_.emplace_back();
  }

  JsonRules rules_;
  std::vector<Names> open_;  // names given so far, in each object or list that is open
};

constexpr std::size_t longest_shown = 60;  // characters of a wrong value in a message

}  // namespace

JsonError::JsonError(std::string why, std::size_t where)
    : Error(ErrorKind::input, str(why, ": see byte ", where)), reason(std::move(why)), byte(where) {}

void read_json(std::string_view text, JsonEvents& events) {
  // The library takes a zero byte for the end of its input and would not look at what follows.
  if (const std::size_t zero = text.find('\0'); zero != text.npos) refuse_syntax(zero + 1);
  LibraryEvents library(events);
  std::string copy;
  text = with_whole_characters(text, copy);
  Json::sax_parse(text.begin(), text.end(), &library);
}

std::size_t count_lone_surrogates(std::string_view text) {
  std::size_t count = 0;
  for_each_lone_surrogate(text, [&](std::size_t) { ++count; });
  return count;
}

void check_json(std::string_view text, JsonRules rules) {
  RuleEvents events(rules);
  read_json(text, events);
}

Json parse_json(std::string_view text) {
  check_json(text);
  std::string copy;
  text = with_whole_characters(text, copy);
  return Json::parse(text.begin(), text.end());
}

JsonFields::JsonFields(const std::filesystem::path& path, std::string remedy)
    : JsonFields(path, read_small_file(path), std::move(remedy)) {}

JsonFields::JsonFields(const std::filesystem::path& path, const std::string& text, std::string remedy)
    : path_(path), remedy_(std::move(remedy)) {
  if (text.empty()) refuse("the file is empty");
  refuse_stand_in(path_, text);
  try {
    object_ = std::make_shared<const Json>(parse_json(text));
  } catch (const Error& error) {
    refuse(error.message());
  }
  if (!object_->is_object()) refuse("this JSON is not an object, { … }");
}

JsonFields::JsonFields(const JsonFields& outer, std::string_view section, const nlohmann::json& inside)
    : path_(outer.path_),
      remedy_(outer.remedy_),
      prefix_(outer.full_name(section) + "."),
      object_(outer.object_, &inside) {}

void JsonFields::refuse(const std::string& message) const {
  throw Error::input(str(path_.string(), ": ", message, "; ", remedy_));
}

std::string JsonFields::full_name(std::string_view name) const { return str(prefix_, name); }

void JsonFields::refuse_value(std::string_view name, const std::string& expected) const {
  std::string value = json(name);
  if (value.size() > longest_shown) value = value.substr(0, longest_shown) + " …";
  refuse(str(full_name(name), " is ", value, ", and must be ", expected));
}

bool JsonFields::is_null(std::string_view name) const {
  const auto found = object_->find(std::string(name));
  return found != object_->end() && found->is_null();
}

const nlohmann::json* JsonFields::find(std::string_view name) const {
  const auto found = object_->find(std::string(name));
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

const nlohmann::json& JsonFields::get(std::string_view name) const {
  const nlohmann::json* value = find(name);
  if (value == nullptr) refuse(str(full_name(name), " is missing"));
  return *value;
}

std::int64_t JsonFields::whole(std::string_view name, std::int64_t smallest, std::int64_t largest) const {
  const nlohmann::json& value = get(name);
  const bool too_large = value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX;
  const bool fits = value.is_number_integer() && !too_large;
  const std::int64_t number = fits ? value.get<std::int64_t>() : 0;
  if (!fits || number < smallest || number > largest) {
    refuse_value(name, str("a whole number from ", smallest, largest < INT64_MAX ? str(" to ", largest) : ""));
  }
  return number;
}

std::uint64_t JsonFields::count(std::string_view name, std::uint64_t largest) const {
  const nlohmann::json& value = get(name);
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > largest) {
    refuse_value(name, str("a whole number from 0 to ", largest));
  }
  return value.get<std::uint64_t>();
}

double JsonFields::real(std::string_view name) const {
  const nlohmann::json& value = get(name);
  if (!value.is_number()) refuse_value(name, "a number");
  return value.get<double>();
}

std::string JsonFields::json(std::string_view name) const {
  return get(name).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

bool JsonFields::flag(std::string_view name) const {
  const nlohmann::json& value = get(name);
  if (!value.is_boolean()) refuse_value(name, "true or false");
  return value.get<bool>();
}

std::string JsonFields::text(std::string_view name) const {
  const nlohmann::json& value = get(name);
  if (!value.is_string()) refuse_value(name, "a text");
  return value.get<std::string>();
}

std::vector<std::string> JsonFields::texts(std::string_view name) const {
  const nlohmann::json& value = get(name);
  std::vector<std::string> texts;
  if (!value.is_array()) refuse_value(name, "a list of texts");
  for (const nlohmann::json& one : value) {
    if (!one.is_string()) refuse_value(name, "a list of texts");
    texts.push_back(one.get<std::string>());
  }
  return texts;
}

std::map<std::string, std::string> JsonFields::named_texts(std::string_view name) const {
  const nlohmann::json& value = get(name);
  std::map<std::string, std::string> texts;
  if (!value.is_object()) refuse_value(name, "an object of texts");
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) refuse_value(name, "an object of texts");
    texts[key] = text.get<std::string>();
  }
  return texts;
}

std::map<std::string, std::uint64_t> JsonFields::counts(std::uint64_t largest) const {
  std::map<std::string, std::uint64_t> counts;
  for (const auto& [key, number] : object_->items()) {
    if (!number.is_number_unsigned() || number.get<std::uint64_t>() > largest) {
      refuse_value(key, str("a whole number from 0 to ", largest));
    }
    counts[key] = number.get<std::uint64_t>();
  }
  return counts;
}

const nlohmann::json& JsonFields::list(std::string_view name) const {
  const nlohmann::json& value = get(name);
  if (!value.is_array()) refuse_value(name, "a list");
  return value;
}

JsonFields JsonFields::section(std::string_view name) const {
  const nlohmann::json& value = get(name);
  if (!value.is_object()) refuse_value(name, "an object, { … }");
  return {*this, name, value};
}

std::vector<JsonFields> JsonFields::sections(std::string_view name) const {
  const nlohmann::json& value = get(name);
  std::vector<JsonFields> sections;
  if (!value.is_array()) refuse_value(name, "a list of objects");
  for (const nlohmann::json& one : value) {
    if (!one.is_object()) refuse_value(name, "a list of objects");
    sections.push_back({*this, str(name, "[", sections.size(), "]"), one});
  }
  return sections;
}

void JsonFields::refuse_unknown(std::initializer_list<std::string_view> known) const {
  for (const auto& [name, value] : object_->items()) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      refuse(str("there is an unknown field ", quote(full_name(name))));
    }
  }
}

std::vector<std::string> JsonFields::names() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : object_->items()) names.push_back(name);
  return names;
}

std::optional<std::string> JsonFields::optional_text(std::string_view name) const {
  return has(name) ? std::optional(text(name)) : std::nullopt;
}

std::optional<bool> JsonFields::optional_flag(std::string_view name) const {
  return has(name) ? std::optional(flag(name)) : std::nullopt;
}

std::optional<double> JsonFields::optional_real(std::string_view name) const {
  return has(name) ? std::optional(real(name)) : std::nullopt;
}

}  // namespace inkling
