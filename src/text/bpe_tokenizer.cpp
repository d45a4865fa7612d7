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
#include "base/progress.h"
#include "base/strings.h"
#include "bpe/encoder.h"
#include "bpe/files.h"
#include "bpe/hugging_face_json.h"
#include "bpe/pattern.h"
#include "bpe/trainer.h"
#include "formats/json_fields.h"
#include "text/foreign_tokenizer.h"
#include "text/hugging_face_files.h"
#include "text/line_cuts.h"
#include "text/tokenizer_errors.h"
#include "text/tokenizer_kind.h"

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
  return boundary > 0 ? boundary : character_start(text, longest_part);
}

class BpeTokenizer final : public Tokenizer {
 public:
  // `json` is the text of the vocabulary's tokenizer.json.
  BpeTokenizer(BpeVocabulary vocabulary, std::optional<Token> separator, std::optional<Token> first_token,
               std::string json)
      : encoder_(vocabulary),
        vocabulary_(std::move(vocabulary)),
        separator_(separator),
        first_token_(first_token),
        json_(std::move(json)) {}

  std::string kind() const override { return "bpe"; }
  std::uint64_t vocab_size() const override { return vocabulary_.tokens.size(); }
  std::optional<Token> separator() const override { return separator_; }
  std::optional<Token> first_token() const override { return first_token_; }
  void check(std::string_view text) const override { require_utf8(text); }

  std::size_t part_length(std::string_view text, bool more_may_follow) const override {
    return bpe_part_length(text, more_may_follow);
  }

  void encode_part(std::string_view part, std::vector<Token>& tokens) const override {
    require_utf8(part);
    encoder_.encode(part, tokens);
  }

  std::string decode(Token token) const override {
    require_token(token, vocab_size());
    return vocabulary_.tokens[token];
  }

  void save(const std::filesystem::path& folder) const override {
    write_description(folder, description());
    const AddedToken* const separator = vocabulary_.find_added(separator_);
    write_hugging_face_files(folder, json_, separator ? std::optional(separator->name) : std::nullopt);
  }

  std::string hash() const override { return hash_text(print_description(description())); }

 private:
  TokenizerDescription description() const {
    return {.kind = kind(),
            .separator = separator_.has_value(),
            .model_hash = hash_text(json_),
            .separator_token = separator_};
  }

  BpeEncoder encoder_;
  BpeVocabulary vocabulary_;
  std::optional<Token> separator_, first_token_;
  std::string json_;
};

// The token that ends a document, by its name; where the vocabulary has none of these, the lowest number that is free.
Token find_separator(BpeVocabulary& vocabulary) {
  for (const char* name : {separator_name, "<|end_of_text|>", "</s>", "<eos>"}) {
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

std::unique_ptr<Tokenizer> make_bpe_tokenizer(BpeVocabulary vocabulary, bool with_separator) {
  const std::optional<Token> separator = with_separator ? std::optional(find_separator(vocabulary)) : std::nullopt;
  vocabulary.first_token.reset();  // documents are separated as inkling does it
  std::string json = print_bpe_json(vocabulary);
  return std::make_unique<BpeTokenizer>(std::move(vocabulary), separator, separator, std::move(json));
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
  Progress progress("merging", wanted, "tokens");
  BpeVocabulary vocabulary = trainer.finish(wanted, [&](std::size_t tokens) { progress.update(tokens); });
  if (vocabulary.tokens.size() < wanted) {
    throw Error::input(str("data.tokenizer.vocab_size: ", config.vocab_size,
                           " is more than this text has pairs for that come twice; write ",
                           vocabulary.tokens.size() + config.vocab_size - wanted, " or less"));
  }
  return vocabulary;
}

std::unique_ptr<Tokenizer> build_bpe_tokenizer(const TokenizerConfig& config, const ReadParts& read,
                                               bool with_separator) {
  if (!config.from) return make_bpe_tokenizer(learn(config, read, with_separator), with_separator);
  return make_bpe_tokenizer(read_bpe(tokenizer_source(*config.from), config.pattern), with_separator);
}

std::unique_ptr<Tokenizer> open_bpe_tokenizer(const std::filesystem::path& folder,
                                              const TokenizerDescription& description) {
  std::string json = read_described_file(folder, "tokenizer.json", description);
  BpeVocabulary vocabulary = read_bpe(folder / "tokenizer.json");
  if (description.separator != (vocabulary.find_added(description.separator_token) != nullptr)) {
    refuse_tokenizer(description_path(folder), "\"separator_token\" is not what tokenizer.json says");
  }
  const auto separator = description.separator_token;
  return std::make_unique<BpeTokenizer>(std::move(vocabulary), separator, separator, std::move(json));
}

// The name of a special token in tokenizer_config.json or special_tokens_map.json: a text, or an object with it.
std::optional<std::string> special_token_name(const std::filesystem::path& folder, const std::string& role) {
  for (const char* file : {"tokenizer_config.json", "special_tokens_map.json"}) {
    if (!std::filesystem::exists(folder / file)) continue;
    const JsonFields json(folder / file, "fetch the tokenizer again");
    if (!json.has(role)) continue;
    return json.json(role).starts_with("{") ? json.section(role).text("content") : json.text(role);
  }
  return std::nullopt;
}

}  // namespace

bool holds_foreign_tokenizer(const std::filesystem::path& folder) {
  const auto has = [&](const char* name) { return std::filesystem::exists(folder / name); };
  return has("tokenizer.json") || (has("vocab.json") && has("merges.txt")) || (has("encoder.json") && has("vocab.bpe"));
}

std::unique_ptr<Tokenizer> open_foreign_tokenizer(const std::filesystem::path& folder) {
  BpeVocabulary vocabulary = read_bpe(folder);
  std::optional<Token> separator;
  if (const auto name = special_token_name(folder, "eos_token")) {
    if (const AddedToken* const added = vocabulary.find_added(*name)) separator = added->token;
  } else if (std::filesystem::exists(folder / "config.json")) {  // GPT-2's own folder says it there alone
    const JsonFields config(folder / "config.json", "fetch the model again");
    for (const AddedToken& added : vocabulary.added) {
      if (config.has("eos_token_id") && config.json("eos_token_id") == str(added.token)) separator = added.token;
    }
  }
  const std::optional<Token> first_token = vocabulary.first_token;
  std::string json = print_bpe_json(vocabulary);
  try {
    return std::make_unique<BpeTokenizer>(std::move(vocabulary), separator, first_token, std::move(json));
  } catch (const Error& error) {
    throw Error::input(str(folder.string(), ": its tokenizer cannot be used: ", error.message()));
  }
}

std::filesystem::path tokenizer_source(const std::string& from) {
  if (from != "gpt2") return from;
  const char* const elsewhere = std::getenv("INKLING_GPT2_TOKENIZER");
  std::filesystem::path folder = elsewhere != nullptr ? elsewhere : INKLING_GPT2_TOKENIZER;
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
