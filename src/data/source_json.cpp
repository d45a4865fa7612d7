#include "data/source_reader.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/strings.h"
#include "formats/json.h"

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
    if (times_given_ > 1) refuse(str("field ", name, " is given more than once; keep only one of them"));
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

bool is_json_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

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

bool JsonElements::has(std::size_t at) {
  if (at > longest_document) {
    refuse(0, str("a value of more than ", format_bytes(longest_document),
                  ", and each is one document; if the texts are inside it, write them one a line, as jq -c '.NAME[]' "
                  "does"));
  }
  while (at >= stream_.view().size() && !stream_.at_end()) stream_.read_more();
  return at < stream_.view().size();
}

std::size_t JsonElements::spaces_from(std::size_t at) {
  while (has(at) && is_json_space(stream_.view()[at])) ++at;
  return at;
}

// Of the value at the beginning of view(): up to the bracket or quote that closes it or, if it is a number or a word,
// up to what ends it. One that the file's end cuts short has all the rest.
std::size_t JsonElements::length_of_value() {
  std::size_t depth = 0, at = 0;
  bool in_string = false;
  for (; has(at); ++at) {
    const char c = stream_.view()[at];
    if (in_string) {
      if (c == '\\') ++at;
      if (c == '"') in_string = false;
      if (c == '"' && depth == 0) return at + 1;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      if (depth <= 1) return depth == 0 ? at : at + 1;
      --depth;
    } else if (depth == 0 && (c == ',' || is_json_space(c))) {
      return at;
    }
  }
  return stream_.view().size();
}

// Returns where the next value begins, or the file ends.
std::size_t JsonElements::separators_from(std::size_t at) {
  at = spaces_from(at);
  if (!in_list_) return at;
  if (!has(at)) refuse(at, "the list breaks off: there is no ] at its end; make or fetch the file again");
  const char c = stream_.view()[at];
  if (c != ',' && c != ']')
    refuse(at, "this is not JSON: between members of a list there is a comma, and ] behind them");
  at = spaces_from(at + 1);
  if (c == ']' && has(at)) refuse(at, "this is not JSON: something follows the list");
  ended_ = c == ']';
  return at;
}

std::optional<JsonElements::Element> JsonElements::next() {
  take(given_);
  if (!begun_) {
    begun_ = true;
    take(spaces_from(0));
    in_list_ = has(0) && stream_.view()[0] == '[';
    if (in_list_) take(1);
    take(spaces_from(0));
    if (in_list_ && has(0) && stream_.view()[0] == ']') separators_from(0);
  }
  given_ = 0;
  if (ended_ || (!in_list_ && !has(0))) return std::nullopt;
  const std::size_t length = length_of_value();
  if (length == 0) refuse(0, "this is not JSON: a value is missing");
  given_ = separators_from(length);
  const std::uint64_t begin = stream_.offset();
  return Element{stream_.view().substr(0, length), begin, begin + given_, line_};
}

void JsonElements::take(std::size_t bytes) {
  const std::string_view text = stream_.view().substr(0, bytes);
  line_ += static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n'));
  stream_.take(bytes);
}

void JsonElements::refuse(std::size_t at, std::string_view what) const {
  const std::string_view text = stream_.view().substr(0, at);
  const auto line = line_ + static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n'));
  throw Error::input(str(path_.string(), ":", line, ": ", what));
}

}  // namespace inkling
