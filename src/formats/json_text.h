// The one reader of JSON that anybody may have written: what is accepted can be read in one way only. It takes time n
// log n and memory of a few times the text, whatever the text is. JsonFields (formats/json_fields.h) reads a whole file
// by it, field by field; what is too large to become values, or has to be read fast, is passed on as events.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <variant>

#include "base/error.h"

namespace inkling {

// Errors of this file are of kind input, say what is wrong at which byte or name, and leave it to the caller to say in
// which file.

// The error for a text that cannot be read any further.
struct JsonError : Error {
  JsonError(std::string why, std::size_t where);

  std::string reason;  // "this is not JSON"
  std::size_t byte;    // where it was seen, from 1
};

struct JsonRules {
  std::size_t deepest = 64;         // levels of objects and lists inside each other
  std::size_t deepest_unique = 64;  // the last level at which an object may not give a name twice
};

// JSON may hold the escape of half a surrogate pair, "\ud800", which stands for no character; texts from the web do.
// All functions here read it as U+FFFD. Returns how many there are, for a caller who tells the person.
std::size_t count_lone_surrogates(std::string_view text);

// Throws an Error if the text is not one JSON value, breaks a rule, or holds a zero byte or a number too large for a
// double.
void check_json(std::string_view text, JsonRules rules = {});

// Checks the text and returns it as a value.
nlohmann::json parse_json(std::string_view text);

// A value that holds no other values. A number is a uint64_t if it is whole and has no sign, an int64_t if it is whole
// and has one, and a double otherwise.
using JsonScalar = std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string_view>;

// Is told what a text holds, one thing after the other. The views that a call is given are valid during that call only.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  virtual void open_object() = 0;
  virtual void open_list() = 0;
  virtual void close() = 0;  // the innermost object or list
  virtual void name(std::string_view name) = 0;
  virtual void scalar(const JsonScalar& value) = 0;
};

// Tells `events` what the text holds, so that the text as a whole never becomes values. Throws JsonError for a text
// that is not one JSON value, and for a zero byte or a number as above. Rules are checked by check_json(), which has to
// be called first where it matters how deep the text nests and that names are unique.
void read_json(std::string_view text, JsonEvents& events);

}  // namespace inkling
