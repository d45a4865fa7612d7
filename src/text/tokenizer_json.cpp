// tokenizer.json, from text/tokenizer_kind.h.
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"
#include "base/files.h"
#include "base/strings.h"
#include "formats/json_fields.h"
#include "text/tokenizer_kind.h"

namespace inkling {

namespace {

constexpr const char* format_name = "inkling-tokenizer";
constexpr std::int64_t format_version = 1;
constexpr std::string_view remedy = "prepare the data again, or take the folder from a backup";

using Json = nlohmann::ordered_json;

}  // namespace

fs::path tokenizer_json_path(const fs::path& folder) { return folder / "tokenizer.json"; }

void refuse_tokenizer(const fs::path& path, const std::string& why) {
  throw Error::input(str(path.string(), ": not a tokenizer of inkling, or a damaged one: ", why, "; ", remedy));
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
  const JsonFields json(path, std::string(remedy));
  if (json.optional_text("format") != format_name) refuse_tokenizer(path, str("\"format\" is not ", format_name));
  const std::int64_t version = json.whole("version", 1);
  if (version != format_version) {
    throw Error::input(str(path.string(), ": version ", version,
                           " of the tokenizer format; this inkling reads version ", format_version,
                           ": use the inkling that wrote it"));
  }
  TokenizerJson fields;
  fields.kind = json.text("kind");
  fields.separator = json.flag("separator");
  fields.characters = json.optional_text("characters");
  fields.model_hash = json.optional_text("model_hash");
  json.refuse_unknown({"format", "version", "kind", "separator", "characters", "model_hash"});
  return fields;
}

}  // namespace inkling
