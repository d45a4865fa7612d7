#include "formats/json_fields.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/strings.h"
#include "formats/json_text.h"
#include "formats/model_place.h"

namespace inkling {
namespace {

constexpr std::size_t longest_shown = 60;  // characters of a wrong value in a message

}  // namespace

JsonFields::JsonFields(const std::filesystem::path& path, std::string remedy)
    : JsonFields(path, read_small_file(path), std::move(remedy)) {}

JsonFields::JsonFields(const std::filesystem::path& path, const std::string& text, std::string remedy)
    : path_(path), remedy_(std::move(remedy)) {
  if (text.empty()) refuse("the file is empty");
  refuse_stand_in(path_, text);
  try {
    object_ = parse_json(text);
  } catch (const Error& error) {
    refuse(error.message());
  }
  if (!object_.is_object()) refuse("this JSON is not an object, { … }");
}

JsonFields::JsonFields(const JsonFields& outer, std::string_view section, nlohmann::json object)
    : path_(outer.path_), remedy_(outer.remedy_), prefix_(outer.full_name(section) + "."), object_(std::move(object)) {}

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
  const auto found = object_.find(std::string(name));
  return found != object_.end() && found->is_null();
}

const nlohmann::json* JsonFields::find(std::string_view name) const {
  const auto found = object_.find(std::string(name));
  return found == object_.end() || found->is_null() ? nullptr : &*found;
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
  for (const auto& [key, number] : object_.items()) {
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
  for (const auto& [name, value] : object_.items()) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      refuse(str("there is an unknown field ", quote(full_name(name))));
    }
  }
}

std::vector<std::string> JsonFields::names() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : object_.items()) names.push_back(name);
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
