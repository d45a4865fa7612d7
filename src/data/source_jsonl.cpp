#include "data/source_jsonl.h"

#include <cstddef>
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
    ++depth_;
  }
  void close() override { --depth_; }

  void name(std::string_view name) override {
    if (depth_ != 1) return;
    at_field_ = name == field_;
    if (at_field_) ++times_given_;
    if (names_.size() < max_names_shown) names_.push_back(quote(name));
  }

  void scalar(const JsonScalar& value) override {
    if (!is_wanted()) return;
    if (const auto* text = std::get_if<std::string_view>(&value)) text_ = *text;
    note(kind_of_value(value));
  }

  // Returns the text. Throws Error input if the line does not have it, exactly once.
  std::string take(const Place& place) {
    const std::string name = quote(field_);
    const auto refuse = [&](const std::string& message) { throw Error::input(str(place.text(), ": ", message)); };
    if (times_given_ > 1) refuse(str("field ", name, " is given twice; leave one of the two"));
    if (!is_object_) refuse(str("this line is not a JSON object: write {", name, ": \"…\"} a line"));
    if (!found_) {
      refuse(str("no field ", name, " (there is ", names_.empty() ? "none" : join(names_, ", "),
                 "): name the field that holds the text as data.jsonl_field"));
    }
    if (!text_) {
      refuse(str("field ", name, " is ", *found_,
                 ", not a string: name the field that holds the text as data.jsonl_field"));
    }
    return std::move(*text_);
  }

 private:
  bool is_wanted() const { return depth_ == 1 && at_field_; }
  void note(const char* kind) {
    if (!is_wanted()) return;
    found_ = kind;
    at_field_ = false;
  }

  const std::string& field_;
  int depth_ = 0;
  bool at_field_ = false;  // the next value at depth 1 belongs to the field
  bool is_object_ = false;
  int times_given_ = 0;              // the field
  std::optional<std::string> text_;  // what the field holds, if that is a string
  std::optional<std::string> found_;
  std::vector<std::string> names_;  // of the object's first fields, for messages
};

}  // namespace

std::string read_json_field(std::string_view line, const std::string& field, const Place& place) {
  FieldEvents events(field);
  try {
    read_json(line, events);
  } catch (const JsonError& error) {
    throw Error::input(str(place.text(), ":", error.byte, ": ", error.reason, "; .jsonl holds one JSON object a line"));
  }
  return events.take(place);
}

}  // namespace inkling
