#include "text/tokenizer_kind.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/paths.h"
#include "base/progress.h"
#include "base/stop_signals.h"
#include "base/strings.h"
#include "formats/model_place.h"
#include "text/bpe_encoder.h"
#include "text/bpe_files.h"
#include "text/bpe_trainer.h"
#include "text/build_tokenizer.h"
#include "text/hugging_face_files.h"
#include "text/pattern.h"
#include "text/special_tokens.h"
#include "text/text_cuts.h"

namespace inkling {

namespace {

// A text is cut where every pattern has a boundary: behind the last such place in 256 KiB or, if there is none, in
// 2 MiB. Only a stretch of more than 2 MiB without one is cut elsewhere, between characters, and that can be seen in
// its tokens.
std::size_t bpe_part_length(std::string_view text, bool more_may_follow) {
  constexpr std::size_t longest_part = std::size_t{2} << 20;
  if (text.size() <= part_bytes) return more_may_follow ? 0 : text.size();
  if (const std::size_t boundary = last_boundary(text, part_bytes)) return boundary;
  if (text.size() <= longest_part) return more_may_follow ? 0 : text.size();
  const std::size_t boundary = last_boundary(text, longest_part);
  if (boundary > 0) return boundary;
  const std::size_t start = character_start(text, longest_part);
  return start > 0 ? start : longest_part;  // what is not UTF-8 has no beginning of a character
}

class BpeTokenizer final : public Tokenizer {
 public:
  // `json` is the text of tokenizer.json where inkling has written it before: it is written again as it was.
  BpeTokenizer(BpeVocabulary vocabulary, std::optional<Token> separator, std::optional<Token> first_token,
               std::optional<std::string> json = {})
      : encoder_(vocabulary),
        vocabulary_(std::move(vocabulary)),
        separator_(separator),
        first_token_(first_token),
        json_(std::move(json)) {}

  std::string kind() const override { return "bpe"; }
  std::uint64_t vocab_size() const override { return vocabulary_.tokens.size(); }
  std::optional<Token> separator() const override { return separator_; }
  std::optional<Token> first_token() const override { return first_token_; }
  std::vector<AddedToken> special_tokens() const override { return vocabulary_.added; }
  void check(std::string_view text) const override { require_utf8(text); }

  std::size_t part_length(std::string_view text, bool more_may_follow) const override {
    return bpe_part_length(text, more_may_follow);
  }

  void encode_part(std::string_view part, bool, std::vector<Token>& tokens) const override {
    require_utf8(part);
    encoder_.encode(part, tokens);
  }

  std::string decode(Token token) const override {
    require_token(token, vocab_size());
    return vocabulary_.tokens[token];
  }

  void save(const std::filesystem::path& folder) const override {
    const std::string text = json();
    write_description(folder, description(text));
    write_hugging_face_files(folder, text, {name_of(first_token_), name_of(separator_)});
  }

  std::string hash() const override { return hash_text(print_description(description(json()))); }

 private:
  // The text of its tokenizer.json, which takes long to print for a large vocabulary.
  std::string json() const { return json_ ? *json_ : print_bpe_json(vocabulary_); }

  TokenizerDescription description(const std::string& text) const {
    return {.kind = kind(),
            .separator = separator_.has_value(),
            .model_hash = hash_text(text),
            .separator_token = separator_,
            .first_token = first_token_};
  }

  std::optional<std::string> name_of(std::optional<Token> token) const {
    const AddedToken* const added = vocabulary_.find_added(token);
    return added ? std::optional(added->name) : std::nullopt;
  }

  BpeEncoder encoder_;
  BpeVocabulary vocabulary_;
  std::optional<Token> separator_, first_token_;
  std::optional<std::string> json_;
};

// The token that ends a document, by its name; where the vocabulary has none of these, the lowest number that is free.
Token find_separator(BpeVocabulary& vocabulary) {
  for (const char* name : common_separators) {
    if (const AddedToken* const added = vocabulary.find_added(name)) return added->token;
  }
  Token token = 0;
  while (token < vocabulary.tokens.size() && (!vocabulary.tokens[token].empty() || vocabulary.find_added(token))) {
    ++token;
  }
  vocabulary.tokens.resize(std::max<std::size_t>(vocabulary.tokens.size(), token + 1));
  vocabulary.added.push_back({token, separator_name});
  return token;
}

// Documents are separated as inkling does it, whatever the vocabulary's maker put in front of them.
std::unique_ptr<Tokenizer> separate_by_name(BpeVocabulary vocabulary, bool with_separator) {
  const std::optional<Token> separator = with_separator ? std::optional(find_separator(vocabulary)) : std::nullopt;
  vocabulary.first_token.reset();
  return std::make_unique<BpeTokenizer>(std::move(vocabulary), separator, separator);
}

BpeVocabulary learn(const TokenizerConfig& config, const ReadParts& read, bool with_separator) {
  BpeTrainer trainer(config.pattern.value_or(Pattern::gpt2));
  bool any = false;
  read("counting words", bpe_part_length, [&](std::string_view part, bool is_trained_on) {
    require_utf8(part);
    if (is_trained_on) trainer.add(part);
    any = any || is_trained_on;
  });
  if (!any) throw Error::input("there is no text to train a tokenizer on: check data.source");
  log_info(str("learning a vocabulary of ", format_count(config.vocab_size), " tokens"));
  const std::uint64_t wanted = config.vocab_size - (with_separator ? 1 : 0);
  constexpr std::uint64_t bytes = 256;  // which are tokens before anything is merged
  Progress progress("merging", wanted, "tokens", bytes);
  BpeVocabulary vocabulary = trainer.finish(wanted, [&](std::size_t tokens) {
    progress.update(tokens);
    leave_if_stopped();
  });
  if (vocabulary.tokens.size() < wanted) {
    throw Error::input(str("data.tokenizer.vocab_size: ", config.vocab_size,
                           " is more than this text has pairs for that come twice; write ",
                           vocabulary.tokens.size() + config.vocab_size - wanted, " or less"));
  }
  return vocabulary;
}

std::unique_ptr<Tokenizer> build_bpe_tokenizer(const TokenizerConfig& config, const ReadParts& read,
                                               bool with_separator) {
  if (!config.from) return separate_by_name(learn(config, read, with_separator), with_separator);
  return separate_by_name(read_configured_bpe(tokenizer_source(*config.from), config.pattern), with_separator);
}

std::unique_ptr<Tokenizer> open_bpe_tokenizer(const std::filesystem::path& folder,
                                              const TokenizerDescription& description) {
  std::string json = read_described_file(folder, "tokenizer.json", description);
  BpeVocabulary vocabulary = read_bpe(folder / "tokenizer.json");
  if (description.separator != (vocabulary.find_added(description.separator_token) != nullptr)) {
    refuse_tokenizer(description_path(folder), "\"separator_token\" is not what tokenizer.json says");
  }
  if (description.first_token && !vocabulary.find_added(description.first_token)) {
    refuse_tokenizer(description_path(folder), "\"first_token\" is not what tokenizer.json says");
  }
  return std::make_unique<BpeTokenizer>(std::move(vocabulary), description.separator_token, description.first_token,
                                        std::move(json));
}

}  // namespace

std::unique_ptr<Tokenizer> make_bpe_tokenizer(BpeVocabulary vocabulary, std::optional<Token> separator) {
  const std::optional<Token> first_token = vocabulary.first_token;
  return std::make_unique<BpeTokenizer>(std::move(vocabulary), separator, first_token);
}

std::filesystem::path tokenizer_source(const std::string& from) {
  if (from != "gpt2") {
    const std::filesystem::path place = model_folder(from);
    if (!std::filesystem::exists(place)) {
      throw Error::input(str("data.tokenizer.from: ", from, " does not exist: ", hint_for_missing(from)));
    }
    if (std::filesystem::is_directory(place)) refuse_broken_links(place);
    return place;
  }
  const char* const elsewhere = std::getenv("INKLING_GPT2_TOKENIZER");
  const std::filesystem::path share = installed_share();
  std::filesystem::path folder = share.empty() ? INKLING_GPT2_TOKENIZER : share / "gpt2";
  if (elsewhere != nullptr) folder = elsewhere;
  if (std::filesystem::exists(folder)) return folder;
  throw Error::environment(str("GPT-2's tokenizer is not in ", folder.string(),
                               ": run scripts/environment, or name a folder with its vocab.json and merges.txt in ",
                               "data.tokenizer.from"));
}

std::string hash_bpe_source(const std::string& from) {
  std::string hashes;
  for (const auto& file : bpe_files(tokenizer_source(from))) hashes += hash_file(file);
  return hash_text(hashes);
}

extern const TokenizerFunctions bpe_tokenizer;
const TokenizerFunctions bpe_tokenizer = {
    .learns = [](const TokenizerConfig& config) { return !config.from.has_value(); },
    .build = build_bpe_tokenizer,
    .open = open_bpe_tokenizer,
};

}  // namespace inkling
