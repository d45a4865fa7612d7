#include "text/tokenizer_kind.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
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
#include "text/normal_form.h"
#include "text/pattern.h"
#include "text/special_tokens.h"
#include "text/text_cuts.h"

namespace inkling {

namespace {

// Where the names of a vocabulary's added tokens stand in texts that are those tokens.
SpecialNames names_in_texts(const BpeVocabulary& vocabulary, bool normalized) {
  std::vector<std::string> names;
  for (const AddedToken& added : vocabulary.added) {
    if (!added.special && added.normalized == normalized) names.push_back(added.name);
  }
  return SpecialNames(names);
}

// A text is cut where every pattern has a boundary, or where no piece of characters has two neighbours, and no added
// token and no character of the form NFC has a part on either side: behind the last such place in 256 KiB or, if there
// is none, in 2 MiB. Only a stretch of more than 2 MiB without one is cut elsewhere, between characters, and that can
// be seen in its tokens.
class BpeCuts {
 public:
  explicit BpeCuts(const BpeVocabulary& vocabulary)
      : composes_(vocabulary.composes),
        names_{names_in_texts(vocabulary, false), names_in_texts(vocabulary, true)},
        behind_(std::max(names_[0].longest(), names_[1].longest())) {
    if (!vocabulary.characters) return;
    pieces_.emplace(vocabulary.tokens);
    behind_ = std::max(behind_, longest_character);
  }

  std::size_t part_length(std::string_view text, bool more_may_follow) const {
    constexpr std::size_t longest_part = std::size_t{2} << 20;
    for (const std::size_t limit : {part_bytes, longest_part}) {
      if (text.size() <= limit + behind_) return more_may_follow ? 0 : text.size();
      if (const std::size_t cut = last_cut(text, limit)) return cut;
    }
    const std::size_t start = character_start(text, longest_part);
    return start > 0 ? start : longest_part;  // what is not UTF-8 has no beginning of a character
  }

  const SpecialNames& names(bool normalized) const { return names_[normalized]; }

 private:
  static constexpr std::size_t longest_character = 4;

  std::size_t last_cut(std::string_view text, std::size_t limit) const {
    for (std::size_t cut = limit; cut > 0; --cut) {
      cut = pieces_ ? pieces_->last_cut(text, cut) : last_boundary(text, cut);
      if (cut == 0 || stay_apart(text, cut)) return cut;
    }
    return 0;
  }

  bool stay_apart(std::string_view text, std::size_t cut) const {
    if (composes_) {
      std::size_t behind = cut;
      const std::string_view before = text.substr(character_start(text, cut - 1), cut - character_start(text, cut - 1));
      // A sign that is an ASCII letter in the form NFC may be part of a name there.
      if (!begins_anew(decode_utf8(text, behind)) || compose(before) != before) return false;
    }
    const std::size_t from = cut - std::min(cut, behind_);
    for (const SpecialNames& names : names_) {
      for (auto found = names.find(text.substr(0, cut + behind_), from); found && found->offset < cut;
           found = names.find(text.substr(0, cut + behind_), found->offset + 1)) {
        if (found->offset + found->name.size() >= cut) return false;
      }
    }
    return true;
  }

  bool composes_;
  std::array<SpecialNames, 2> names_;  // in the text as it came, and behind the normalizer
  std::size_t behind_;                 // bytes that must be known behind a cut
  std::optional<PieceCuts> pieces_;
};

class BpeTokenizer final : public Tokenizer {
 public:
  // `json` is the text of tokenizer.json where inkling has written it before: it is written again as it was.
  BpeTokenizer(BpeVocabulary vocabulary, std::optional<Token> separator, std::optional<Token> first_token,
               std::optional<std::string> json = {})
      : encoder_(vocabulary),
        cuts_(vocabulary),
        vocabulary_(std::move(vocabulary)),
        separator_(separator),
        first_token_(first_token),
        json_(std::move(json)) {
    for (const AddedToken& added : vocabulary_.added) {
      if (added.special) continue;
      texts_.emplace(added.token, added.name);
      by_text_.emplace(added.name, added.token);
    }
    if (!prefix().empty()) BpeTokenizer::check(prefix());
  }

  std::string kind() const override { return "bpe"; }
  std::uint64_t vocab_size() const override { return vocabulary_.tokens.size(); }
  std::optional<Token> separator() const override { return separator_; }
  std::optional<Token> first_token() const override { return first_token_; }
  std::string_view prefix() const override { return prefix_space() == PrefixSpace::never ? "" : " "; }

  std::string_view prefix_of(std::string_view text) const override {
    const bool is_there = prefix_space() != PrefixSpace::all && text.starts_with(' ');
    const bool is_token = !cuts_.names(false).name_at(text).empty() || !cuts_.names(true).name_at(text).empty();
    return is_there || is_token ? "" : prefix();
  }

  bool begins_text(Token) const override {
    return prefix_space() == PrefixSpace::all || prefix_space() == PrefixSpace::all_unless_there;
  }

  std::vector<AddedToken> special_tokens() const override {
    std::vector<AddedToken> special;
    for (const AddedToken& added : vocabulary_.added) {
      if (added.special) special.push_back(added);
    }
    return special;
  }

  void check(std::string_view text) const override {
    require_utf8(text);
    if (!vocabulary_.characters || vocabulary_.characters->byte_tokens) return;
    std::vector<char32_t> unknown;
    find_unknown(text, false, unknown);
    if (!unknown.empty()) refuse_characters(unknown);
  }

  std::size_t part_length(std::string_view text, bool more_may_follow) const override {
    return cuts_.part_length(text, more_may_follow);
  }

  void encode_part(std::string_view part, bool begins_document, std::vector<Token>& tokens) const override {
    check(part);
    encode_around_names(part, false, begins_document, tokens);
  }

  std::string decode(Token token) const override {
    require_token(token, vocab_size());
    const auto text = texts_.find(token);
    return text == texts_.end() ? vocabulary_.tokens[token] : text->second;
  }

  void save(const std::filesystem::path& folder) const override {
    const std::string text = json();
    write_description(folder, description(text));
    write_hugging_face_files(folder, text, {name_of(first_token_), name_of(separator_)});
  }

  std::string hash() const override { return hash_text(print_description(description(json()))); }

 private:
  PrefixSpace prefix_space() const {
    return vocabulary_.characters ? vocabulary_.characters->prefix : PrefixSpace::never;
  }

  // Finds the characters around the names of added tokens that cannot be spelled.
  void find_unknown(std::string_view text, bool normalized, std::vector<char32_t>& unknown) const {
    while (!text.empty()) {
      const auto found = cuts_.names(normalized).find(text);
      const std::string_view stretch = text.substr(0, found ? found->offset : text.size());
      if (!normalized) find_unknown(stretch, true, unknown);
      for (std::size_t offset = 0; normalized && offset < stretch.size();) {
        const std::size_t begin = offset;
        const char32_t character = decode_utf8(stretch, offset);
        if (encoder_.can_spell(stretch.substr(begin, offset - begin))) continue;
        if (std::find(unknown.begin(), unknown.end(), character) == unknown.end()) unknown.push_back(character);
      }
      text.remove_prefix(found ? found->offset + found->name.size() : text.size());
    }
  }

  // Encodes what stands around the names of added tokens: of those in the text as it came, then of those behind the
  // normalizer.
  void encode_around_names(std::string_view text, bool normalized, bool begins, std::vector<Token>& tokens) const {
    while (!text.empty()) {
      const auto found = cuts_.names(normalized).find(text);
      encode_stretch(text.substr(0, found ? found->offset : text.size()), normalized, begins, tokens);
      if (!found) return;
      tokens.push_back(by_text_.at(std::string(found->name)));
      text.remove_prefix(found->offset + found->name.size());
      begins = begins_text(tokens.back());
    }
  }

  void encode_stretch(std::string_view text, bool normalized, bool begins, std::vector<Token>& tokens) const {
    if (text.empty()) return;
    if (!normalized) {
      return vocabulary_.composes ? encode_around_names(compose(text), true, begins, tokens)
                                  : encode_around_names(text, true, begins, tokens);
    }
    const std::string_view front = begins ? prefix_of(text) : "";
    front.empty() ? encoder_.encode(text, tokens) : encoder_.encode(std::string(front).append(text), tokens);
  }

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
  BpeCuts cuts_;
  BpeVocabulary vocabulary_;
  std::optional<Token> separator_, first_token_;
  std::optional<std::string> json_;
  std::unordered_map<Token, std::string> texts_;  // of the added tokens that are not special
  std::unordered_map<std::string, Token> by_text_;
};

// The token that ends a document, by its name; where the vocabulary has none of these, the lowest number that is free.
Token find_separator(BpeVocabulary& vocabulary) {
  for (const char* name : common_separators) {
    for (AddedToken& added : vocabulary.added) {
      if (added.name != name) continue;
      added.special = true;
      return added.token;
    }
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
  const BpeCuts cuts({});
  const auto part_length = [&](std::string_view text, bool more) { return cuts.part_length(text, more); };
  read("counting words", part_length, [&](std::string_view part, bool is_trained_on) {
    require_utf8(part);
    if (is_trained_on) trainer.add(part);
    any = any || is_trained_on;
  });
  if (!any) throw Error::input("there is no text to train a tokenizer on: check data.source");
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
  const std::vector<std::filesystem::path> files = bpe_files(tokenizer_source(from));
  for (const auto& file : files) hashes += hash_file(file);
  const std::filesystem::path folder = files.front().parent_path();
  const bool has_more = std::filesystem::exists(folder / "added_tokens.json") ||
                        std::filesystem::exists(folder / "tokenizer_config.json");
  if (has_more && files.front().extension() == ".json") {
    for (const AddedToken& added : read_configured_bpe(tokenizer_source(from), {}).added) {
      if (!added.special) hashes += str(" ", added.token, " ", added.name);  // which these files can add
    }
  }
  return hash_text(hashes);
}

extern const TokenizerFunctions bpe_tokenizer;
const TokenizerFunctions bpe_tokenizer = {
    .learns = [](const TokenizerConfig& config) { return !config.from.has_value(); },
    .build = build_bpe_tokenizer,
    .open = open_bpe_tokenizer,
};

}  // namespace inkling
