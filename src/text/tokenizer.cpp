#include "text/tokenizer.h"

#include <algorithm>

#include "base/error.h"
#include "base/paths.h"
#include "base/strings.h"
#include "config/config.h"
#include "formats/model_place.h"
#include "text/foreign_tokenizer.h"
#include "text/text_cuts.h"
#include "text/tokenizer_kind.h"

namespace inkling {

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
  if (differ(tokenizer.separator(), known.separator())) return "documents end otherwise";
  if (tokenizer.prefix() != known.prefix()) return "documents begin otherwise";
  const std::uint64_t count = std::min(tokenizer.vocab_size(), known.vocab_size());
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto token = static_cast<Token>(i);
    const std::string now = tokenizer.decode(token), before = known.decode(token);
    if (now != before) return str("token ", i, " is ", quote(now), ", and was ", quote(before));
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
  if (is_there(init_from)) return;
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
