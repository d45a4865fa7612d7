#include "formats/json_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"

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

}  // namespace inkling
