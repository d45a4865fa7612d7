// inkling_tokenizer.json, from text/tokenizer_kind.h.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/paths.h"
#include "base/strings.h"
#include "formats/json_fields.h"
#include "text/tokenizer_kind.h"

namespace inkling {

namespace {

constexpr const char* file_name = "inkling_tokenizer.json";
constexpr const char* older_name = "tokenizer.json";  // which is Hugging Face's name for something else
constexpr const char* format_name = "inkling-tokenizer";
constexpr std::int64_t format_version = 1;
constexpr std::string_view remedy = "prepare the data again, or take the folder from a backup";

using Json = nlohmann::ordered_json;

Token read_token(const JsonFields& json, std::string_view name) {
  return static_cast<Token>(json.count(name, ~Token{0}));
}

// Ascending.
std::vector<AddedToken> read_added(const JsonFields& json) {
  std::vector<AddedToken> added;
  for (const auto& [name, token] : json.counts(largest_token)) added.push_back({static_cast<Token>(token), name});
  std::sort(added.begin(), added.end(), [](const auto& a, const auto& b) { return a.token < b.token; });
  return added;
}

}  // namespace

fs::path description_path(const fs::path& folder) {
  return fs::exists(folder / file_name) || !fs::exists(folder / older_name) ? folder / file_name : folder / older_name;
}

bool holds_description(const fs::path& folder) {
  if (is_there(folder / file_name)) return true;
  if (!fs::is_regular_file(folder / older_name)) return is_there(folder / older_name);
  // A line of an older description comes first; Hugging Face's file can be long.
  std::array<char, 64> front{};
  const std::size_t count = InputFile(folder / older_name).read_some(0, std::as_writable_bytes(std::span(front)));
  return std::string_view(front.data(), count).find(format_name) != std::string_view::npos;
}

void write_description(const fs::path& folder, const TokenizerDescription& description) {
  write_file(folder / file_name, print_description(description));
}

void refuse_tokenizer(const fs::path& path, const std::string& why) {
  throw Error::input(str(path.string(), ": not a tokenizer of inkling, or a damaged one: ", why, "; ", remedy));
}

std::string print_description(const TokenizerDescription& fields) {
  Json json = {
      {"format", format_name}, {"version", format_version}, {"kind", fields.kind}, {"separator", fields.separator}};
  if (fields.characters) json["characters"] = *fields.characters;
  if (fields.model_hash) json["model_hash"] = *fields.model_hash;
  if (fields.separator_token) json["separator_token"] = *fields.separator_token;
  if (fields.first_token != fields.separator_token) {
    json["first_token"] = fields.first_token ? Json(*fields.first_token) : Json(nullptr);
  }
  if (fields.prefix_space) json["prefix_space"] = *fields.prefix_space;
  for (const AddedToken& added : fields.added_tokens) json["added_tokens"][added.name] = added.token;
  return json.dump(2) + "\n";
}

TokenizerDescription read_description(const fs::path& folder) {
  const fs::path path = description_path(folder);
  if (!fs::exists(path)) {
    throw Error::input(str(folder.string(),
                           ": holds no tokenizer (inkling_tokenizer.json is missing): name a folder that ",
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
  TokenizerDescription fields;
  fields.kind = json.text("kind");
  fields.separator = json.flag("separator");
  fields.characters = json.optional_text("characters");
  fields.model_hash = json.optional_text("model_hash");
  if (json.has("separator_token")) fields.separator_token = read_token(json, "separator_token");
  if (!json.is_null("first_token")) {
    fields.first_token = json.has("first_token") ? read_token(json, "first_token") : fields.separator_token;
  }
  fields.prefix_space = json.optional_flag("prefix_space");
  if (json.has("added_tokens")) fields.added_tokens = read_added(json.section("added_tokens"));
  json.refuse_unknown({"format", "version", "kind", "separator", "characters", "model_hash", "separator_token",
                       "first_token", "prefix_space", "added_tokens"});
  return fields;
}

std::string read_described_file(const fs::path& folder, const char* name, const TokenizerDescription& description) {
  if (!description.model_hash) refuse_tokenizer(description_path(folder), "\"model_hash\" is missing");
  std::string text = read_small_file(folder / name);
  if (hash_text(text) == *description.model_hash) return text;
  refuse_tokenizer(folder / name, "it is not the file that inkling_tokenizer.json was written with");
}

}  // namespace inkling
