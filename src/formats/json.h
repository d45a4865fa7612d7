// The one reader of JSON that anybody may have written: what is accepted can be read in one way only. It takes time n
// log n and memory of a few times the text, whatever the text is. JsonFields reads a whole file by it, field by field;
// what is too large to become values, or has to be read fast, is passed on as events.
#pragma once

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

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

// A JSON file read field by field: a field that is missing, of another type or out of range is an Error input that
// names the file, the field and what it should be.

class JsonFields {
 public:
  // Reads a small file (base/files.h) that holds one object. `remedy` ends every message: it says what to do about a
  // file that cannot be used.
  JsonFields(const std::filesystem::path& path, std::string remedy);
  // Does the same with the text of a file that has been read already.
  JsonFields(const std::filesystem::path& path, const std::string& text, std::string remedy);

  // A field that is null counts as absent everywhere.
  bool has(std::string_view name) const { return find(name) != nullptr; }
  bool is_null(std::string_view name) const;  // there, and null
  std::int64_t whole(std::string_view name, std::int64_t smallest, std::int64_t largest = INT64_MAX) const;
  std::uint64_t count(std::string_view name, std::uint64_t largest = INT64_MAX) const;  // from 0
  double real(std::string_view name) const;
  bool flag(std::string_view name) const;
  std::string json(std::string_view name) const;  // the value as JSON text, whatever it is
  std::string text(std::string_view name) const;
  std::vector<std::string> texts(std::string_view name) const;
  std::map<std::string, std::string> named_texts(std::string_view name) const;  // of an object inside
  std::map<std::string, std::uint64_t> counts(std::uint64_t largest) const;     // of an object that holds nothing else
  const nlohmann::json& list(std::string_view name) const;                      // its members are the caller's to check
  JsonFields section(std::string_view name) const;                              // the fields of an object inside
  std::vector<JsonFields> sections(std::string_view name) const;                // of each object in a list

  std::vector<std::string> names() const;  // of all fields

  std::optional<std::string> optional_text(std::string_view name) const;
  std::optional<bool> optional_flag(std::string_view name) const;
  std::optional<double> optional_real(std::string_view name) const;

  // Throws Error input naming the first field that is not among `known`.
  void refuse_unknown(std::initializer_list<std::string_view> known) const;

  // Throws "FILE: MESSAGE; REMEDY".
  [[noreturn]] void refuse(const std::string& message) const;
  // The same for a field that is there: "NAME is VALUE, and must be EXPECTED".
  [[noreturn]] void refuse_value(std::string_view name, const std::string& expected) const;

 private:
  JsonFields(const JsonFields& outer, std::string_view section, const nlohmann::json& inside);

  const nlohmann::json* find(std::string_view name) const;
  const nlohmann::json& get(std::string_view name) const;
  std::string full_name(std::string_view name) const;

  std::filesystem::path path_;
  std::string remedy_;
  std::string prefix_;                            // "runtime." inside that section
  std::shared_ptr<const nlohmann::json> object_;  // inside the file's, which all of its sections share
};

}  // namespace inkling
