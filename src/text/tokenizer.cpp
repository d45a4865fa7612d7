#include "text/tokenizer.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/paths.h"
#include "base/strings.h"
#include "config/config.h"
#include "formats/json.h"
#include "formats/model_place.h"
#include "text/foreign_tokenizer.h"
#include "text/text_cuts.h"
#include "text/tokenizer_kind.h"

namespace inkling {

namespace {

constexpr std::size_t characters_named = 10;

// "é" (U+00E9)
std::string describe(char32_t code_point) {
  std::string character;
  append_utf8(character, code_point);
  return str(quote(character), " (U+", hexadecimal(code_point, 4, Letters::upper_case), ")");
}

constexpr const char* file_name = "inkling_tokenizer.json";
constexpr const char* older_name = "tokenizer.json";  // which is Hugging Face's name for something else
constexpr const char* format_name = "inkling-tokenizer";
constexpr std::int64_t format_version = 1;
constexpr std::string_view prepare_again = "prepare the data again, or take the folder from a backup";

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

void require_utf8(std::string_view text) {
  const auto offset = find_invalid_utf8(text);
  if (!offset) return;
  const auto byte = static_cast<unsigned char>(text[*offset]);
  throw Error::input(str("not UTF-8 at byte ", *offset, " (0x", hexadecimal(byte, 2, Letters::upper_case),
                         "): convert the text (iconv -f LATIN1 -t UTF-8, say) or choose data.tokenizer.kind: byte"));
}

void require_token(Token token, std::uint64_t vocab_size) {
  if (token < vocab_size) return;
  throw Error::input(str("token ", token, " is not in the vocabulary, whose tokens are 0 to ", vocab_size - 1,
                         ": were these tokens made with another tokenizer?"));
}

void refuse_characters(std::span<const char32_t> code_points) {
  std::vector<std::string> names;
  for (const char32_t code_point : code_points.first(std::min(code_points.size(), characters_named))) {
    names.push_back(describe(code_point));
  }
  std::string more;
  if (code_points.size() > characters_named) more = str(" and ", code_points.size() - characters_named, " more");
  throw Error::input(str("no token for ", join(names, ", "), more,
                         ": the text this vocabulary was made from does not have ",
                         code_points.size() == 1 ? "it; leave it out" : "them; leave them out",
                         ", or train with data.tokenizer.kind: sentencepiece or byte, which can spell everything"));
}

// inkling_tokenizer.json, from text/tokenizer_kind.h.

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
  throw Error::input(str(path.string(), ": not a tokenizer of inkling, or a damaged one: ", why, "; ", prepare_again));
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
  const JsonFields json(path, std::string(prepare_again));
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

// A line for each kind, in the order of TokenizerKind.
extern const TokenizerFunctions byte_tokenizer, char_tokenizer, sentencepiece_tokenizer, bpe_tokenizer;
static constexpr const TokenizerFunctions* tokenizer_kinds[] = {
    &byte_tokenizer,
    &char_tokenizer,
    &sentencepiece_tokenizer,
    &bpe_tokenizer,
};

static const TokenizerFunctions& functions_of(TokenizerKind kind) {
  return *tokenizer_kinds[static_cast<std::size_t>(kind)];
}

static std::optional<TokenizerKind> kind_of(std::string_view word) {
  const auto& words = words_of<TokenizerKind>;
  const auto found = std::find(words.begin(), words.end(), word);
  if (found == words.end()) return std::nullopt;
  return static_cast<TokenizerKind>(found - words.begin());
}

// Whether data.tokenizer.from is a folder with a whole tokenizer, and not just a vocabulary to make one of.
static bool names_folder(const TokenizerConfig& config) {
  if (!config.from || *config.from == "gpt2") return false;
  const std::filesystem::path folder = tokenizer_source(*config.from);
  return !config.pattern && std::filesystem::is_directory(folder) && holds_tokenizer(folder);
}

// Only bpe has files of several kinds.
static void require_folder(const TokenizerConfig& config) {
  if (!config.from || config.kind == TokenizerKind::bpe || names_folder(config)) return;
  throw Error::input(str("data.tokenizer.from: ", *config.from, " is no folder that holds a tokenizer; name one that ",
                         "does, such as a checkpoint's, or leave it out"));
}

static std::unique_ptr<Tokenizer> open_named(const TokenizerConfig& config) {
  auto tokenizer = load_tokenizer(tokenizer_source(*config.from));
  if (tokenizer->kind() == word_of(config.kind)) return tokenizer;
  throw Error::input(str("data.tokenizer.from: ", *config.from, " holds a tokenizer of the kind ", tokenizer->kind(),
                         ", and data.tokenizer.kind is ", word_of(config.kind), "; write kind: ", tokenizer->kind()));
}

std::size_t Tokenizer::part_length(std::string_view text, bool more_may_follow) const {
  return next_lines_length(text, more_may_follow);
}

std::optional<Token> document_start(const Tokenizer& tokenizer) {
  const std::optional<Token> first = tokenizer.first_token();
  return first == tokenizer.separator() ? std::nullopt : first;
}

std::optional<Token> token_in_front(const Tokenizer& tokenizer) {
  const std::optional<Token> first = tokenizer.first_token();
  return first ? first : tokenizer.separator();
}

std::optional<std::string> misunderstanding(const Tokenizer& tokenizer, const Tokenizer& known) {
  if (tokenizer.hash() == known.hash()) return std::nullopt;
  const auto differ = [](std::optional<Token> a, std::optional<Token> b) { return a && b && a != b; };
  if (differ(tokenizer.separator(), known.separator())) return "documents end with another token";
  if (tokenizer.prefix() != known.prefix()) return "documents begin differently";
  const std::uint64_t count = std::min(tokenizer.vocab_size(), known.vocab_size());
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto token = static_cast<Token>(i);
    const std::string now = tokenizer.decode(token), before = known.decode(token);
    if (now != before) return str("token ", i, " is ", quote(now), " here and ", quote(before), " there");
  }
  return std::nullopt;
}

std::optional<Token> find_special_token(const Tokenizer& tokenizer, std::string_view name) {
  for (const AddedToken& special : tokenizer.special_tokens()) {
    if (special.name == name) return special.token;
  }
  return std::nullopt;
}

std::vector<Token> encode(const Tokenizer& tokenizer, std::string_view text, bool begins_document) {
  tokenizer.check(text);  // the whole text at once, so that the error names what is wrong in every part
  std::vector<Token> tokens;
  for (; !text.empty(); begins_document = false) {
    const std::size_t length = tokenizer.part_length(text);
    tokenizer.encode_part(text.substr(0, length), begins_document, tokens);
    text.remove_prefix(length);
  }
  return tokens;
}

std::string decode(const Tokenizer& tokenizer, std::span<const Token> tokens) {
  std::string text;
  for (const Token token : tokens) text += tokenizer.decode(token);
  return text;
}

bool holds_tokenizer(const std::filesystem::path& folder) {
  return holds_description(folder) || holds_foreign_tokenizer(folder);
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& folder) {
  if (!holds_description(folder) && holds_foreign_tokenizer(folder)) return open_foreign_tokenizer(folder);
  const TokenizerDescription description = read_description(folder);
  if (const auto kind = kind_of(description.kind)) return functions_of(*kind).open(folder, description);
  const auto& words = words_of<TokenizerKind>;
  refuse_tokenizer(description_path(folder), str("its kind is ", quote(description.kind), "; known are ",
                                                 join(std::vector<std::string>(words.begin(), words.end()), ", ")));
}

std::unique_ptr<Tokenizer> build_tokenizer(const TokenizerConfig& config, const ReadParts& read, bool with_separator) {
  require_folder(config);
  if (names_folder(config)) {
    auto tokenizer = open_named(config);
    if (tokenizer->separator() || !with_separator) return tokenizer;
    // A bare vocabulary of bpe is given one; what has a first token has its own way to begin and end documents.
    if (config.kind != TokenizerKind::bpe || tokenizer->first_token()) {
      throw Error::input(str("data.tokenizer.from: ", *config.from,
                             " holds a tokenizer without a token between documents, and data.source has several; join "
                             "them in one text"));
    }
  }
  return functions_of(config.kind).build(config, read, with_separator);
}

bool tokenizer_learns(const TokenizerConfig& config) {
  return !config.from && functions_of(config.kind).learns(config);
}

std::string identify_tokenizer_source(const TokenizerConfig& config) {
  require_folder(config);
  return names_folder(config) ? open_named(config)->hash() : str(*config.from, " ", hash_bpe_source(*config.from));
}

bool names_tokenizer(const Config& config) {
  return config.written.find("data.tokenizer.kind") || config.written.find("data.tokenizer.from");
}

void require_model(const std::filesystem::path& init_from) {
  if (is_there(model_folder(init_from))) return;
  throw Error::input(str("model.init_from: ", init_from.string(), " does not exist: ", hint_for_missing(init_from),
                         "; auto means new weights"));
}

void inherit_tokenizer(Config& config, const std::filesystem::path& folder, const Tokenizer* held) {
  TokenizerConfig& tokenizer = config.data.tokenizer;
  if (tokenizer.from || source_kind(config.data) == SourceKind::token_files) return;
  if (held == nullptr) {
    if (names_tokenizer(config)) return;
    throw Error::input(str(folder.string(),
                           " (model.init_from) holds no tokenizer; name the one that its weights were trained with in "
                           "data.tokenizer, such as {kind: bpe, from: gpt2}"));
  }
  const std::string kind(held->kind());
  const auto place = config.written.find("data.tokenizer.kind");
  if (place && kind != word_of(tokenizer.kind)) {
    throw Error::input(str(*place, ": data.tokenizer.kind is ", word_of(tokenizer.kind), ", and ", folder.string(),
                           " (model.init_from) brings a tokenizer of the kind ", kind, "; leave it out"));
  }
  tokenizer.kind = *kind_of(kind);
  tokenizer.from = folder.string();
  check_fit(config);
}

void replace_missing_tokenizer(TokenizerConfig& config, const std::filesystem::path& checkpoint) {
  if (!config.from || *config.from == "gpt2" || std::filesystem::exists(*config.from)) return;
  if (holds_tokenizer(checkpoint)) config.from = checkpoint.string();
}

}  // namespace inkling
