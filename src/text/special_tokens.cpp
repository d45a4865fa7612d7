#include "text/special_tokens.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/strings.h"
#include "formats/json_fields.h"

namespace inkling {

namespace {

namespace fs = std::filesystem;

constexpr const char* what_to_mend = "mend the field, or fetch the tokenizer again";

std::optional<JsonFields> open_if_there(const fs::path& path) {
  return fs::exists(path) ? std::optional(JsonFields(path, what_to_mend)) : std::nullopt;
}

// The name of a special token: a text, or an object with it. Empty if the files say that there is none.
std::optional<std::string> special_token_name(const fs::path& folder, const std::string& role) {
  for (const char* file : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const auto json = open_if_there(folder / file);
    if (json && json->is_null(role)) return "";
    if (!json || !json->has(role)) continue;
    return json->json(role).starts_with("{") ? json->section(role).text("content") : json->text(role);
  }
  return std::nullopt;
}

std::optional<Token> find_token(std::span<const AddedToken> special, const std::string& name) {
  const auto found =
      std::find_if(special.begin(), special.end(), [&](const AddedToken& one) { return one.name == name; });
  return found == special.end() ? std::nullopt : std::optional(found->token);
}

// The tokens of the files so far: both maps hold the same ones.
struct AddedTokens {
  std::map<Token, std::string> names;
  std::map<std::string, Token> numbers;
};

// Adds one token of a file. Those that the model has under the same name are left to it.
void add(AddedTokens& added, std::span<const Piece> pieces, const JsonFields& json, const AddedToken& token) {
  const std::string what = str("the added token ", token.token, ", ", quote(token.name), ", ");
  if (token.token < pieces.size()) {
    const Piece& piece = pieces[token.token];
    if (piece.name != token.name) json.refuse(str(what, "is ", quote(piece.name), " in tokenizer.model"));
    if (piece.type == PieceType::text) {
      json.refuse(
          str(what, "is a piece of text in tokenizer.model, and inkling never encodes a text to an added token"));
    }
    return;
  }
  const std::string& name = added.names.emplace(token.token, token.name).first->second;
  if (name != token.name) json.refuse(str(what, "is ", quote(name), " elsewhere"));
  const Token number = added.numbers.emplace(token.name, token.token).first->second;
  if (number != token.token) json.refuse(str(what, "has the number ", number, " elsewhere"));
}

}  // namespace

std::optional<Token> read_separator(const fs::path& folder, std::span<const AddedToken> special,
                                    const std::string& otherwise) {
  if (const auto name = special_token_name(folder, "eos_token")) return find_token(special, *name);
  const auto config = open_if_there(folder / "config.json");  // GPT-2's own folder says it there alone
  if (!config || !config->has("eos_token_id")) return find_token(special, otherwise);
  const std::string value = config->json("eos_token_id");
  const nlohmann::json ends =
      value.starts_with("[") ? config->list("eos_token_id") : nlohmann::json::array({nlohmann::json::parse(value)});
  std::set<Token> tokens;
  for (const AddedToken& one : special) tokens.insert(one.token);
  for (const nlohmann::json& end : ends) {
    if (!end.is_number_unsigned() || end.get<std::uint64_t>() > largest_token) continue;
    if (const auto token = static_cast<Token>(end.get<std::uint64_t>()); tokens.contains(token)) return token;
  }
  return std::nullopt;
}

FirstToken read_first_token(const fs::path& folder, std::span<const AddedToken> special, const std::string& otherwise) {
  FirstToken first;
  first.bos = find_token(special, special_token_name(folder, "bos_token").value_or(otherwise));
  const auto json = open_if_there(folder / "tokenizer_config.json");
  if (!json) return first;
  first.wanted = json->optional_flag("add_bos_token");
  if (json->optional_flag("add_eos_token") == true) {
    json->refuse_value("add_eos_token", "false: a prompt that ends its document has nothing to go on with");
  }
  return first;
}

std::vector<AddedToken> read_added_tokens(const fs::path& folder, std::span<const Piece> pieces) {
  AddedTokens added;
  const auto config = open_if_there(folder / "tokenizer_config.json");
  if (config && config->has("added_tokens_decoder")) {
    const JsonFields decoder = config->section("added_tokens_decoder");
    for (const std::string& number : decoder.names()) {
      const std::int64_t token = whole_number(number).value_or(-1);
      if (token < 0 || static_cast<std::uint64_t>(token) > largest_token) {
        decoder.refuse_value(number, str("under the number of a token, from 0 to ", largest_token));
      }
      const JsonFields one = decoder.section(number);
      if (static_cast<std::uint64_t>(token) >= pieces.size() && !one.optional_flag("special").value_or(false)) {
        one.refuse(str("the added token ", token, " is not \"special\", and inkling never encodes a text to one"));
      }
      add(added, pieces, decoder, {static_cast<Token>(token), one.text("content")});
    }
  }
  if (const auto json = open_if_there(folder / "added_tokens.json")) {
    for (const auto& [name, token] : json->counts(largest_token)) {
      add(added, pieces, *json, {static_cast<Token>(token), name});
    }
  }
  std::vector<AddedToken> list;
  for (const auto& [token, name] : added.names) list.push_back({token, name});
  return list;
}

std::optional<bool> read_prefix_space(const fs::path& folder) {
  const auto json = open_if_there(folder / "tokenizer_config.json");
  return json ? json->optional_flag("add_prefix_space") : std::nullopt;
}

}  // namespace inkling
