#include "data/source_jsonl.h"

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/strings.h"

namespace inkling {

namespace {

// Listens to the parser and keeps one string: no tree of the whole line is built. The bool results mean "go on".
class FieldListener : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit FieldListener(const std::string& field) : field_(field) {}

  bool null() override { return value("null"); }
  bool boolean(bool) override { return value("true or false"); }
  bool number_integer(number_integer_t) override { return value("a number"); }
  bool number_unsigned(number_unsigned_t) override { return value("a number"); }
  bool number_float(number_float_t, const string_t&) override { return value("a number"); }
  bool binary(binary_t&) override { return value("binary"); }
  bool string(string_t& text) override {
    if (is_wanted()) text_ = std::move(text);
    return value("a string");
  }

  bool start_object(std::size_t) override {
    value("an object");
    if (depth_++ == 0) is_object_ = true;
    return true;
  }
  bool end_object() override { return leave(); }
  bool start_array(std::size_t) override {
    value("a list");
    ++depth_;
    return true;
  }
  bool end_array() override { return leave(); }

  bool key(string_t& name) override {
    if (depth_ != 1) return true;
    at_field_ = name == field_;
    times_given_ += at_field_ ? 1 : 0;
    if (names_.size() < 10) names_.push_back(inkling::quote(name));
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception& error) override {
    error_position_ = position;
    error_text_ = error.what();
    return false;
  }

  std::optional<std::string> text_;
  std::string found_;  // what the field held
  bool is_object_ = false;
  int times_given_ = 0;  // the field
  std::vector<std::string> names_;
  std::size_t error_position_ = 0;
  std::string error_text_;

 private:
  bool is_wanted() const { return depth_ == 1 && at_field_; }
  bool value(const char* what) {
    if (!is_wanted()) return true;
    found_ = what;
    if (found_ != "a string") text_.reset();
    at_field_ = false;
    return true;
  }
  bool leave() {
    --depth_;
    return true;
  }

  const std::string& field_;
  int depth_ = 0;
  bool at_field_ = false;  // the next value at depth 1 belongs to the field
};

// The library's "[json.exception…] parse error at line 1, column 5: …" without its own place.
std::string reason_of(const std::string& what) {
  const std::size_t column = what.find("column ");
  const std::size_t colon = column == std::string::npos ? std::string::npos : what.find(": ", column);
  return colon == std::string::npos ? "syntax error" : what.substr(colon + 2);
}

}  // namespace

std::string read_json_field(std::string_view line, const std::string& field, const Place& place) {
  // The library takes a zero byte for the end of its input and would not look at what follows.
  if (const std::size_t zero = line.find('\0'); zero != line.npos) {
    throw Error::input(str(place.text(), ":", zero + 1, ": this line is no JSON: it holds a zero byte"));
  }
  FieldListener listener(field);
  if (!nlohmann::json::sax_parse(line.begin(), line.end(), &listener)) {
    throw Error::input(str(place.text(), ":", listener.error_position_, ": this line is no JSON: ",
                           reason_of(listener.error_text_), "; .jsonl holds one JSON object a line"));
  }
  if (listener.times_given_ > 1) {
    throw Error::input(str(place.text(), ": field ", inkling::quote(field), " is given twice; leave one of the two"));
  }
  if (listener.text_) return std::move(*listener.text_);
  if (!listener.is_object_) {
    throw Error::input(str(place.text(), ": this line is no JSON object: write {\"", field, "\": \"…\"} a line"));
  }
  if (!listener.found_.empty()) {
    throw Error::input(str(place.text(), ": field ", inkling::quote(field), " is ", listener.found_,
                           ", not a string: name the field that holds the text as data.jsonl_field"));
  }
  throw Error::input(str(place.text(), ": no field ", inkling::quote(field), " (there is ",
                         listener.names_.empty() ? "none" : join(listener.names_, ", "),
                         "): name the field that holds the text as data.jsonl_field"));
}

}  // namespace inkling
