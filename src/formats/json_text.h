// The one reader of JSON that anybody may have written: what is accepted says one thing only. It takes time n log n and
// memory of a few times the text, whatever the text is. JsonFields (formats/json_fields.h) reads a whole file by it,
// field by field; what is too large to become values, or has to be read fast, is told as events.
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

// A text that cannot be read on.
struct JsonError : Error {
  JsonError(std::string why, std::size_t where);

  std::string reason;  // "this is not JSON"
  std::size_t byte;    // where it was seen, from 1
};

struct JsonRules {
  std::size_t deepest = 64;         // levels of objects and lists inside each other
  std::size_t deepest_unique = 64;  // the last level at which an object may not give a name twice
};

// Error if the text is not one JSON value, breaks a rule, or holds a number that no double can stand for or a zero
// byte.
void check_json(std::string_view text, JsonRules rules = {});

// The text as a value, checked.
nlohmann::json parse_json(std::string_view text);

// What has no name and holds nothing else. A number is uint64_t if it is whole and has no sign, int64_t if it is whole.
using JsonScalar = std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string_view>;

// What is in a text, one thing after the other. What a call is given lasts as long as the call.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  virtual void open_object() = 0;
  virtual void open_list() = 0;
  virtual void close() = 0;  // the innermost object or list
  virtual void name(std::string_view name) = 0;
  virtual void scalar(const JsonScalar& value) = 0;
};

// Tells `events` what the text holds, so that the text as a whole never becomes values. JsonError for a text that is
// not one JSON value, or for a number or a byte as above. The rules are for check_json(), which has to be called first
// where it matters how deep the text nests and that names are unique.
void read_json(std::string_view text, JsonEvents& events);

}  // namespace inkling
