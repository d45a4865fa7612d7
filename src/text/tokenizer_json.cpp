#include "text/tokenizer_json.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files.h"
#include "base/strings.h"

namespace inkling {

namespace {

constexpr const char* format_name = "inkling-tokenizer";
constexpr std::int64_t format_version = 1;

using Json = nlohmann::ordered_json;

// Hands out an object's fields one by one, so that in the end a field nobody asked for is seen.
class Fields {
 public:
  Fields(Json object, const fs::path& path) : object_(std::move(object)), path_(path) {
    if (!object_.is_object()) refuse_tokenizer(path_, "it is not a JSON object");
  }

  template <typename Value>
  std::optional<Value> take(const char* name) {
    const auto field = object_.find(name);
    if (field == object_.end()) return std::nullopt;
    try {
      Value value = field->template get<Value>();
      object_.erase(field);
      return value;
    } catch (const Json::exception&) {
      refuse_tokenizer(path_, str(quote(name), " is of the wrong type"));
    }
  }

  template <typename Value>
  Value require(const char* name) {
    auto value = take<Value>(name);
    if (!value) refuse_tokenizer(path_, str(quote(name), " is missing"));
    return *std::move(value);
  }

  void require_all_taken() const {
    if (!object_.empty()) refuse_tokenizer(path_, str("it has an unknown field ", quote(object_.begin().key())));
  }

 private:
  Json object_;
  const fs::path& path_;
};

Json parse(const fs::path& path) {
  const std::string text = read_small_file(path);
  try {
    return Json::parse(text);
  } catch (const Json::exception&) {
    refuse_tokenizer(path, "it is not JSON");
  }
}

}  // namespace

fs::path tokenizer_json_path(const fs::path& folder) { return folder / "tokenizer.json"; }

void refuse_tokenizer(const fs::path& path, const std::string& why) {
  throw Error::input(str(path.string(), ": no tokenizer of inkling, or a damaged one: ", why,
                         ". Prepare the data again, or take the folder from a backup"));
}

std::string print_tokenizer_json(const TokenizerJson& fields) {
  Json json = {
      {"format", format_name}, {"version", format_version}, {"kind", fields.kind}, {"separator", fields.separator}};
  if (fields.characters) json["characters"] = *fields.characters;
  if (fields.model_hash) json["model_hash"] = *fields.model_hash;
  return json.dump(2) + "\n";
}

TokenizerJson read_tokenizer_json(const fs::path& folder) {
  const fs::path path = tokenizer_json_path(folder);
  if (!fs::exists(path)) {
    throw Error::input(str(folder.string(), ": holds no tokenizer (tokenizer.json is missing): name a folder that ",
                           "inkling-prepare or inkling-train has written"));
  }
  Fields json(parse(path), path);
  if (json.require<std::string>("format") != format_name) refuse_tokenizer(path, "\"format\" is another");
  const auto version = json.require<std::int64_t>("version");
  if (version != format_version) {
    throw Error::input(str(path.string(), ": version ", version,
                           " of the tokenizer format; this inkling reads version ", format_version,
                           ": use the inkling that wrote it"));
  }
  TokenizerJson fields;
  fields.kind = json.require<std::string>("kind");
  fields.separator = json.require<bool>("separator");
  fields.characters = json.take<std::string>("characters");
  fields.model_hash = json.take<std::string>("model_hash");
  json.require_all_taken();
  return fields;
}

}  // namespace inkling
