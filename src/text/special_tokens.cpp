#include "text/special_tokens.h"

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/strings.h"
#include "formats/json.h"
#include "text/bpe_files.h"

namespace inkling {

namespace {

namespace fs = std::filesystem;

constexpr const char* what_to_mend = "mend the field, or fetch the tokenizer again";

std::optional<JsonFields> open_if_there(const fs::path& path) {
  return fs::exists(path) ? std::optional(JsonFields(path, what_to_mend)) : std::nullopt;
}

// The name of a special token as the files write one: a text, or an object that holds it.
std::string name_in(const JsonFields& json, const std::string& key) {
  return json.json(key).starts_with("{") ? json.section(key).text("content") : json.text(key);
}

// The name that a role has. Empty if the files say that there is none.
std::optional<std::string> special_token_name(const fs::path& folder, const std::string& role) {
  for (const char* file : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const auto json = open_if_there(folder / file);
    if (json && json->is_null(role)) return "";
    if (!json || !json->has(role)) continue;
    return name_in(*json, role);
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

Token number_in(const JsonFields& decoder, const std::string& number) {
  const std::int64_t token = whole_number(number).value_or(-1);
  if (token < 0 || static_cast<std::uint64_t>(token) > largest_token) {
    decoder.refuse_value(number, str("under the number of a token, from 0 to ", largest_token));
  }
  return static_cast<Token>(token);
}

constexpr const char* never_added = "and inkling never encodes a text to one";

// The names of all special tokens that tokenizer_config.json gives, each behind its field.
std::vector<std::pair<std::string, std::string>> special_names(const JsonFields& config) {
  std::vector<std::pair<std::string, std::string>> names;
  for (const char* role :
       {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}) {
    if (config.has(role)) names.emplace_back(role, name_in(config, role));
  }
  for (const char* list : {"additional_special_tokens", "extra_special_tokens"}) {
    if (!config.has(list)) continue;
    if (config.json(list).starts_with("{")) {
      const JsonFields named = config.section(list);
      for (const std::string& one : named.names()) names.emplace_back(list, name_in(named, one));
      continue;
    }
    for (const nlohmann::json& one : config.list(list)) {
      const nlohmann::json& name = one.is_object() && one.contains("content") ? one["content"] : one;
      if (!name.is_string()) config.refuse_value(list, "a list of names");
      names.emplace_back(list, name.get<std::string>());
    }
  }
  return names;
}

// transformers cuts a text around the names of special tokens. inkling does not, which is the same for all other texts;
// but where such a name is a word, it would be another tokenizer.
void refuse_names_of_text(const JsonFields& config, const std::function<bool(const std::string&)>& is_text) {
  for (const auto& [field, name] : special_names(config)) {
    if (is_text(name)) config.refuse(str(field, " names ", quote(name), ", a token of text, ", never_added));
  }
}

// What vocab.json and merges.txt do not say must not be said otherwise beside them.
void require_gpt2_expression(const fs::path& folder, bool has_pattern) {
  using Words = std::initializer_list<std::string_view>;
  const std::string remedy = str(
      "put the tokenizer.json of the same model there, which says it; where there is none, transformers writes one: ",
      "python3 -c 'import sys, transformers; transformers.AutoTokenizer.from_pretrained(sys.argv[1])",
      ".save_pretrained(sys.argv[1])' ", shell_word(folder.empty() ? "." : folder.string()));
  const auto require = [&](const char* file, const char* field, Words known) {
    if (!fs::exists(folder / file)) return;
    const JsonFields json(folder / file, remedy);
    const auto value = json.optional_text(field);
    if (!value || std::find(known.begin(), known.end(), *value) != known.end()) return;
    json.refuse_value(field,
                      str(*known.begin(), " for vocab.json and merges.txt alone, which do not say how words are cut"));
  };
  for (const char* file : {"tokenizer_config.json", "config.json"}) {
    require(file, "tokenizer_class", {"GPT2Tokenizer", "GPT2TokenizerFast"});
  }
  // The others are what transformers takes GPT-2's tokenizer for.
  if (!has_pattern) require("config.json", "model_type", {"gpt2", "opt", "gpt_neo", "gptj"});
}

// tokenizer_config.json may not say otherwise than the vocabulary what stands in front of a text.
void check_prefix_space(const JsonFields& config, const BpeVocabulary& vocabulary) {
  const bool has_prefix = vocabulary.characters && vocabulary.characters->prefix != PrefixSpace::never;
  if (config.optional_flag("add_prefix_space").value_or(has_prefix) == has_prefix) return;
  config.refuse_value("add_prefix_space", has_prefix ? "true, as tokenizer.json has it"
                                                     : "false: this tokenizer puts no space in front of a text");
}

// A vocabulary whose tokens are found by name and by number, while those are added that other files have.
class KnownTokens {
 public:
  explicit KnownTokens(BpeVocabulary& vocabulary)
      : vocabulary_(vocabulary), texts_(vocabulary.tokens.begin(), vocabulary.tokens.end()) {
    texts_.erase("");
    for (std::size_t i = 0; i < vocabulary.added.size(); ++i) note(i);
  }

  bool is_text(const std::string& name) const { return texts_.contains(name); }

  bool has(const std::string& name, std::uint64_t token) const {
    const auto found = by_name_.find(name);
    return found != by_name_.end() && vocabulary_.added[found->second].token == token;
  }

  // Adds a token of another file, unless it is known. `json` is that file.
  void add(const JsonFields& json, const AddedToken& token) {
    const std::string what = str("the added token ", token.token, ", ", quote(token.name), ", ");
    if (const auto found = by_name_.find(token.name); found != by_name_.end()) {
      const AddedToken& same = vocabulary_.added[found->second];
      if (same.token != token.token) json.refuse(str(what, "has the number ", same.token, " elsewhere"));
      if (same.special != token.special) json.refuse(str(what, "is ", same.special ? "" : "not ", "special elsewhere"));
      return;
    }
    if (token.name.empty() || is_text(token.name)) json.refuse(str(what, "is a token of text, ", never_added));
    if (!token.special && !can_stand_in_texts(token.name)) {
      json.refuse(str(what, "is not special and must have 2 to ", longest_token, " bytes"));
    }
    auto& tokens = vocabulary_.tokens;
    if (numbers_.contains(token.token) || (token.token < tokens.size() && !tokens[token.token].empty())) {
      json.refuse(str(what, "has the number of another token"));
    }
    tokens.resize(std::max<std::size_t>(tokens.size(), std::size_t{token.token} + 1));
    vocabulary_.added.push_back(token);
    note(vocabulary_.added.size() - 1);
  }

  // What begins or ends texts, or has another role, is none of their tokens.
  void make_special(const std::string& name) {
    const auto found = by_name_.find(name);
    if (found != by_name_.end()) vocabulary_.added[found->second].special = true;
  }

 private:
  void note(std::size_t place) {
    by_name_.emplace(vocabulary_.added[place].name, place);
    numbers_.insert(vocabulary_.added[place].token);
  }

  BpeVocabulary& vocabulary_;
  std::unordered_set<std::string> texts_;
  std::unordered_map<std::string, std::size_t> by_name_;  // of added tokens, by their places
  std::unordered_set<Token> numbers_;                     // of the same
};

// Adds the tokens of added_tokens_decoder and added_tokens.json that the other files lack. The second does not say
// which are special: those that have a role.
void add_missing_tokens(const fs::path& folder, const std::optional<JsonFields>& config, BpeVocabulary& vocabulary,
                        KnownTokens& known) {
  std::set<std::string> roles;
  const auto map = open_if_there(folder / "special_tokens_map.json");
  for (const auto* json : {config ? &*config : nullptr, map ? &*map : nullptr}) {
    if (json == nullptr) continue;
    for (const auto& [field, name] : special_names(*json)) roles.insert(name);
  }
  for (const std::string& name : roles) known.make_special(name);
  if (config && config->has("added_tokens_decoder")) {
    const JsonFields decoder = config->section("added_tokens_decoder");
    for (const std::string& number : decoder.names()) {
      AddedToken token = read_added_token(decoder.section(number), number_in(decoder, number), vocabulary, false);
      token.special = token.special || roles.contains(token.name);
      known.add(decoder, token);
    }
  }
  const auto added = open_if_there(folder / "added_tokens.json");
  if (!added) return;
  for (const auto& [name, token] : added->counts(largest_token)) {
    if (!known.has(name, token)) known.add(*added, {static_cast<Token>(token), name, roles.contains(name)});
  }
}

}  // namespace

BpeVocabulary read_configured_bpe(const fs::path& path, std::optional<Pattern> pattern, const JsonFields* json) {
  const std::vector<fs::path> files = bpe_files(path);
  const fs::path folder = files.front().parent_path();
  if (files.size() > 1) require_gpt2_expression(folder, pattern.has_value());
  BpeVocabulary vocabulary = json != nullptr ? read_bpe(*json, pattern) : read_bpe(path, pattern);
  if (files.front().extension() != ".json") return vocabulary;  // tiktoken's ranks have no such files beside them
  const auto config = open_if_there(folder / "tokenizer_config.json");
  KnownTokens known(vocabulary);
  if (config) {
    check_prefix_space(*config, vocabulary);
    refuse_names_of_text(*config, [&](const std::string& name) { return known.is_text(name); });
  }
  add_missing_tokens(folder, config, vocabulary, known);
  return vocabulary;
}

void refuse_other_tokens(const fs::path& folder, std::span<const Piece> pieces) {
  const auto config = open_if_there(folder / "tokenizer_config.json");
  if (!config) return;
  refuse_names_of_text(*config, [&](const std::string& name) {
    return std::any_of(pieces.begin(), pieces.end(),
                       [&](const Piece& piece) { return piece.type == PieceType::text && piece.name == name; });
  });
  if (!config->has("sp_model_kwargs")) return;
  const JsonFields library = config->section("sp_model_kwargs");
  if (library.optional_flag("enable_sampling") == true) {
    library.refuse_value("enable_sampling", "false: inkling gives a text the same tokens each time");
  }
}

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
      const Token token = number_in(decoder, number);
      const JsonFields one = decoder.section(number);
      if (token >= pieces.size() && !one.optional_flag("special").value_or(false)) {
        one.refuse(str("the added token ", token, " is not \"special\", ", never_added));
      }
      add(added, pieces, decoder, {token, one.text("content")});
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

SpecialNames::SpecialNames(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (name.size() < 2) continue;
    names_.insert(name);
    lengths_[name.substr(0, 2)].insert(name.size());
    if (!std::exchange(begins_[static_cast<unsigned char>(name[0])], true)) first_bytes_ += name[0];
    longest_ = std::max(longest_, name.size());
  }
}

std::string_view SpecialNames::name_at(std::string_view text) const {
  if (text.size() < 2 || !begins_[static_cast<unsigned char>(text[0])]) return {};
  const auto lengths = lengths_.find(std::string(text.substr(0, 2)));
  if (lengths == lengths_.end()) return {};
  for (const std::size_t length : lengths->second) {
    if (length > text.size()) continue;
    const auto name = names_.find(std::string(text.substr(0, length)));
    if (name != names_.end()) return *name;
  }
  return {};
}

std::optional<SpecialNames::Found> SpecialNames::find(std::string_view text, std::size_t from) const {
  if (first_bytes_.empty()) return std::nullopt;
  for (std::size_t at = from; at < text.size(); ++at) {
    if (first_bytes_.size() == 1) {
      at = text.find(first_bytes_[0], at);
      if (at == std::string_view::npos) return std::nullopt;
    } else if (!begins_[static_cast<unsigned char>(text[at])]) {
      continue;
    }
    if (const std::string_view name = name_at(text.substr(at)); !name.empty()) return Found{at, name};
  }
  return std::nullopt;
}

}  // namespace inkling
