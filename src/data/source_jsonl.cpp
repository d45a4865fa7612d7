#include "data/source_jsonl.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/strings.h"
#include "formats/json_text.h"

namespace inkling {

namespace {

constexpr std::size_t max_names_shown = 10;

const char* kind_of_value(const JsonScalar& value) {
  if (std::holds_alternative<std::nullptr_t>(value)) return "null";
  if (std::holds_alternative<bool>(value)) return "true or false";
  return std::holds_alternative<std::string_view>(value) ? "a string" : "a number";
}

// Keeps the string in one field of a line. JsonFields would make values of everything in it and read it twice, which is
// too slow for a corpus of a billion lines.
class FieldEvents final : public JsonEvents {
 public:
  explicit FieldEvents(const std::string& field) : field_(field) {}

  void open_object() override {
    note("an object");
    if (depth_++ == 0) is_object_ = true;
  }
  void open_list() override {
    note("a list");
    if (depth_ == 1 && list_.empty()) list_ = name_;
    ++depth_;
  }
  void close() override { --depth_; }

  void name(std::string_view name) override {
    if (depth_ != 1) return;
    at_field_ = name == field_;
    if (list_.empty()) name_ = name;
    if (at_field_) ++times_given_;
    if (names_.size() < max_names_shown) names_.push_back(quote(name));
  }

  void scalar(const JsonScalar& value) override {
    if (depth_ == 0) {
      if (const auto* text = std::get_if<std::string_view>(&value)) string_ = *text;
    }
    if (!is_wanted()) return;
    if (const auto* text = std::get_if<std::string_view>(&value)) text_ = *text;
    note(kind_of_value(value));
  }

  // The value, if it is not an object but a string.
  std::optional<std::string> take_string() { return std::move(string_); }

  // Returns the text. Throws Error input if the object does not have it, exactly once.
  // `or_else` ends the message.
  std::string take(const Place& place, std::string_view or_else = "") {
    const std::string name = quote(field_);
    const auto refuse = [&](const std::string& message) {
      throw Error::input(str(place.text(), ": ", message, or_else));
    };
    if (times_given_ > 1) refuse(str("field ", name, " is given twice; leave one of the two"));
    const std::string remedy = str("name the field that holds the text as data.jsonl_field", deeper(place));
    if (!is_object_) refuse(str("this is not a JSON object: each document is one, {", name, ": \"…\"}"));
    if (!found_) {
      refuse(str("no field ", name, " (there is ", names_.empty() ? "none" : join(names_, ", "), "): ", remedy));
    }
    if (!text_) refuse(str("field ", name, " is ", *found_, ", not a string: ", remedy));
    return std::move(*text_);
  }

 private:
  bool is_wanted() const { return depth_ == 1 && at_field_; }
  void note(const char* kind) {
    if (!is_wanted()) return;
    found_ = kind;
    at_field_ = false;
  }

  // What to do where the texts may be in a list inside the object.
  std::string deeper(const Place& place) const {
    if (list_.empty()) return "";
    const std::string file = place.path->string();
    return str("; if the texts are in the list ", quote(list_), ", jq -c ", shell_word(str(".[", quote(list_), "][]")),
               " ", shell_word(file), " > ", shell_word(file + ".jsonl"), " writes them one a line");
  }

  const std::string& field_;
  int depth_ = 0;
  bool at_field_ = false;  // the next value at depth 1 belongs to the field
  bool is_object_ = false;
  int times_given_ = 0;              // the field
  std::optional<std::string> text_;  // what the field holds, if that is a string
  std::optional<std::string> found_;
  std::optional<std::string> string_;
  std::vector<std::string> names_;  // of the object's first fields, for messages
  std::string name_, list_;         // of the last field, and of the first that is a list
};

}  // namespace

std::string read_json_field(std::string_view line, const std::string& field, const Place& place) {
  FieldEvents events(field);
  try {
    read_json(line, events);
  } catch (const JsonError& error) {
    throw Error::input(
        str(place.text(), ":", error.byte, ": ", error.reason,
            "; .jsonl holds one JSON object a line (a list, or objects over several lines, are read from .json)"));
  }
  return events.take(place);
}

std::string read_json_element(std::string_view element, const std::string& field, const Place& place) {
  constexpr std::string_view as_it_is =
      "; if it holds no text, name the other files alone; data.raw: true takes every file as it is";
  FieldEvents events(field);
  try {
    read_json(element, events);
  } catch (const JsonError& error) {
    const std::string_view before = element.substr(0, error.byte - 1);
    Place here = place;
    here.line += static_cast<std::uint64_t>(std::count(before.begin(), before.end(), '\n'));
    throw Error::input(str(here.text(), ": ", error.reason,
                           "; .json holds a list of objects or strings, or one of them after another", as_it_is));
  }
  if (auto text = events.take_string()) return std::move(*text);
  return events.take(place, as_it_is);
}

}  // namespace inkling
