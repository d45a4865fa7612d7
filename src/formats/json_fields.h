// A JSON file read field by field: a field that is missing, of another type or out of range is an Error input that
// names the file, the field and what it should be.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace inkling {

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
  JsonFields(const JsonFields& outer, std::string_view section, nlohmann::json object);

  const nlohmann::json* find(std::string_view name) const;
  const nlohmann::json& get(std::string_view name) const;
  std::string full_name(std::string_view name) const;

  std::filesystem::path path_;
  std::string remedy_;
  std::string prefix_;  // "runtime." inside that section
  nlohmann::json object_;
};

}  // namespace inkling
