#include "text/foreign_tokenizer.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/strings.h"
#include "formats/json.h"
#include "formats/model_place.h"
#include "text/bpe_files.h"
#include "text/build_tokenizer.h"
#include "text/hugging_face_files.h"
#include "text/special_tokens.h"
#include "text/text_cuts.h"
#include "text/tokenizer_kind.h"

namespace inkling {

namespace {

namespace fs = std::filesystem;

// Small models are often made with the tokens of large ones, and padded with a token that no model has: those that the
// model beside the tokenizer lacks are never drawn and in no text. Returns whether there are any.
bool drop_unknown_to_model(const fs::path& folder, std::vector<AddedToken>& added) {
  if (!fs::exists(folder / "config.json")) return false;
  const JsonFields config(folder / "config.json", "fetch or save the model again");
  if (!config.has("vocab_size")) return false;
  const std::uint64_t known = config.count("vocab_size");
  std::vector<std::string> dropped;
  std::erase_if(added, [&](const AddedToken& one) {
    if (one.token >= known) dropped.push_back(str(quote(one.name), " (", one.token, ")"));
    return one.token >= known;
  });
  static std::mutex mutex;
  static std::set<fs::path> told;  // a run opens a tokenizer more than once
  const std::lock_guard lock(mutex);
  if (dropped.empty() || !told.insert(folder).second) return !dropped.empty();
  log_info(str(folder.string(), ": its model has ", known, " tokens and not the added ", join(dropped, ", "),
               ", which therefore ", dropped.size() == 1 ? "is" : "are", " left out"));
  return true;
}

std::unique_ptr<Tokenizer> open_sentencepiece(const fs::path& folder) {
  auto model = make_sentencepiece_model(folder, read_small_file(folder / sentencepiece_file_name));
  SentencepieceRules rules;
  refuse_other_tokens(folder, model->pieces());
  rules.added = read_added_tokens(folder, model->pieces());
  drop_unknown_to_model(folder, rules.added);
  rules.prefix_space = read_prefix_space(folder).value_or(model->file().add_dummy_prefix);
  const std::vector<AddedToken> special = special_tokens(*model, rules.added);
  rules.separator = read_separator(folder, special, "</s>");
  const FirstToken first = read_first_token(folder, special, "<s>");
  if (first.wanted.value_or(true)) rules.first_token = first.bos;
  return make_foreign_sentencepiece(std::move(model), std::move(rules));
}

// json: the folder's tokenizer.json, if it has one.
std::unique_ptr<Tokenizer> open_bpe(const fs::path& folder, const JsonFields* json = nullptr) {
  BpeVocabulary vocabulary = read_configured_bpe(folder, {}, json);
  if (drop_unknown_to_model(folder, vocabulary.added)) {
    if (!vocabulary.find_added(vocabulary.first_token)) vocabulary.first_token.reset();
    std::size_t size = 0;
    for (const AddedToken& one : vocabulary.added) size = std::max<std::size_t>(size, one.token + std::size_t{1});
    while (vocabulary.tokens.size() > size && vocabulary.tokens.back().empty()) vocabulary.tokens.pop_back();
  }
  for (AddedToken& one : vocabulary.added) {
    if (one.token == vocabulary.first_token) one.special = true;
  }
  std::vector<AddedToken> special = vocabulary.added;
  std::erase_if(special, [](const AddedToken& one) { return !one.special; });
  const FirstToken first = read_first_token(folder, special, "");
  if (first.wanted == true && !vocabulary.first_token_is_said) vocabulary.first_token = first.bos;
  const std::optional<Token> separator = read_separator(folder, special, "");
  try {
    return make_bpe_tokenizer(std::move(vocabulary), separator);
  } catch (const Error& error) {
    throw Error::input(str(folder.string(), ": its tokenizer cannot be used: ", error.message()));
  }
}

// A piece of a unigram's list in tokenizer.json, [name, score].
Piece read_unigram_piece(const nlohmann::json& pair, const JsonFields& model, const std::string& place) {
  const bool is_pair = pair.is_array() && pair.size() == 2 && pair[0].is_string() && pair[1].is_number();
  if (!is_pair) model.refuse(str(place, " is not a piece and its score"));
  return {PieceType::text, {}, pair[0].get<std::string>(), pair[1].get<float>()};
}

// A folder whose tokenizer.json has sentencepiece's unigram, as transformers saves it without tokenizer.model: the
// model is put together again from its pieces.
std::unique_ptr<Tokenizer> open_unigram(const fs::path& folder, const JsonFields& json) {
  BpeVocabulary vocabulary;
  read_hugging_face_rules(json, vocabulary, true);
  const CharacterRules& characters = *vocabulary.characters;
  const bool is_whole = characters.prefix == PrefixSpace::all || characters.prefix == PrefixSpace::never;
  if (!characters.space_signs || !is_whole || characters.cuts_spaces) {
    json.refuse(
        "model.type is \"Unigram\", which is computed here with spaces written as U+2581 by Replace, with or "
        "without Prepend, or by a Metaspace that does not split and prepends nothing");
  }
  std::map<std::string, std::uint64_t> special;
  for (const JsonFields& one : json.has("added_tokens") ? json.sections("added_tokens") : std::vector<JsonFields>()) {
    if (one.optional_flag("special") == false) one.refuse_value("special", "true beside a model of type \"Unigram\"");
    special.emplace(one.text("content"), one.count("id"));
  }
  const JsonFields model = json.section("model");
  const std::uint64_t unknown = model.count("unk_id");
  std::vector<Piece> pieces;
  for (const nlohmann::json& pair : model.list("vocab")) {
    Piece piece = read_unigram_piece(pair, model, str("model.vocab[", pieces.size(), "]"));
    if (const auto found = special.find(piece.name); found != special.end() && found->second == pieces.size()) {
      piece.type = PieceType::control;
      special.erase(found);
    }
    if (characters.byte_tokens && byte_of_piece(piece.name)) piece.type = PieceType::byte;
    if (pieces.size() == unknown) piece.type = PieceType::unknown;
    pieces.push_back(std::move(piece));
  }
  if (!special.empty()) {
    json.refuse(str("added_tokens names ", quote(special.begin()->first), " (", special.begin()->second,
                    "), which model.vocab does not have under this number"));
  }
  refuse_other_tokens(folder, pieces);
  std::string serialized = write_sentencepiece_file(pieces, characters.byte_tokens.has_value());
  try {
    if (characters.cuts_lines) return make_sentencepiece_tokenizer(std::move(serialized));
    auto made = std::make_unique<SentencepieceModel>(std::move(serialized));
    const std::optional<Token> separator = read_separator(folder, special_tokens(*made, {}), "</s>");
    return make_foreign_sentencepiece(std::move(made), {.prefix_space = characters.prefix == PrefixSpace::all,
                                                        .separator = separator,
                                                        .first_token = vocabulary.first_token});
  } catch (const Error& error) {
    json.refuse(str("model.vocab does not make a sentencepiece model: ", error.message()));
  }
}

class ForeignSentencepiece final : public Tokenizer {
 public:
  ForeignSentencepiece(std::unique_ptr<SentencepieceModel> model, SentencepieceRules rules)
      : model_(std::move(model)), rules_(std::move(rules)), cuts_(model_->pieces()) {}

  std::string kind() const override { return "sentencepiece"; }
  std::uint64_t vocab_size() const override {
    return rules_.added.empty() ? model_->pieces().size() : rules_.added.back().token + std::uint64_t{1};
  }
  std::optional<Token> separator() const override { return rules_.separator; }
  std::optional<Token> first_token() const override { return rules_.first_token; }
  std::vector<AddedToken> special_tokens() const override { return inkling::special_tokens(*model_, rules_.added); }
  std::string_view prefix() const override { return rules_.prefix_space ? " " : ""; }
  void check(std::string_view text) const override { model_->check(text); }

  std::size_t part_length(std::string_view text, bool more_may_follow) const override {
    return cuts_.part_length(text, more_may_follow);
  }

  void encode_part(std::string_view part, bool begins_document, std::vector<Token>& tokens) const override {
    check(part);
    for (bool begins = begins_document; !part.empty(); begins = false) {
      const std::string_view stretch = part.substr(0, cuts_.stretch_length(part));
      model_->encode(begins ? str(prefix(), stretch) : std::string(stretch), tokens);
      part.remove_prefix(stretch.size());
    }
  }

  std::string decode(Token token) const override {
    require_token(token, vocab_size());
    return token < model_->pieces().size() ? model_->pieces()[token].bytes : std::string();
  }

  void save(const std::filesystem::path& folder) const override {
    write_file(folder / sentencepiece_file_name, model_->serialized());
    write_description(folder, description());
    write_hugging_face_files(folder, print_sentencepiece_tokenizer(*model_, &rules_),
                             {name_of(rules_.first_token), name_of(rules_.separator)});
  }

  std::string hash() const override { return hash_text(print_description(description())); }

 private:
  std::optional<std::string> name_of(std::optional<Token> token) const {
    for (const AddedToken& special : special_tokens()) {
      if (special.token == token) return special.name;
    }
    return std::nullopt;
  }

  TokenizerDescription description() const {
    return {.kind = kind(),
            .separator = rules_.separator.has_value(),
            .model_hash = hash_text(model_->serialized()),
            .separator_token = rules_.separator,
            .first_token = rules_.first_token,
            .prefix_space = rules_.prefix_space,
            .added_tokens = rules_.added};
  }

  std::unique_ptr<SentencepieceModel> model_;
  SentencepieceRules rules_;
  PieceCuts cuts_;
};

void check_rules(const SentencepieceModel& model, const SentencepieceRules& rules) {
  const std::vector<AddedToken> special = special_tokens(model, rules.added);
  for (const auto& [what, token] : {std::pair("separator", rules.separator), std::pair("first", rules.first_token)}) {
    const auto is_it = [&, wanted = token](const AddedToken& one) { return one.token == wanted; };
    if (token && std::none_of(special.begin(), special.end(), is_it)) {
      throw Error::input(str("the ", what, " token, ", *token, ", is none that stands for no text"));
    }
  }
  if (rules.prefix_space) model.check(" ");
  std::uint64_t next = model.pieces().size();
  for (const AddedToken& added : rules.added) {
    if (added.token < next) {
      throw Error::input(str("the added token ", quote(added.name), " has the number of another, ", added.token));
    }
    next = added.token + std::uint64_t{1};
  }
}

}  // namespace

bool holds_foreign_tokenizer(const fs::path& folder) {
  const auto has = [&](const char* name) { return fs::exists(folder / name); };
  return has("tokenizer.json") || has(sentencepiece_file_name) || (has("vocab.json") && has("merges.txt")) ||
         (has("encoder.json") && has("vocab.bpe"));
}

std::unique_ptr<Tokenizer> open_foreign_tokenizer(const fs::path& folder) {
  const bool has_model = fs::exists(folder / sentencepiece_file_name);
  if (!fs::exists(folder / "tokenizer.json")) return has_model ? open_sentencepiece(folder) : open_bpe(folder);
  const JsonFields json = open_tokenizer_json(folder / "tokenizer.json");
  const bool is_unigram = json.section("model").optional_text("type") == "Unigram";
  if (is_unigram) return has_model ? open_sentencepiece(folder) : open_unigram(folder, json);
  try {
    return open_bpe(folder, &json);
  } catch (const Error& error) {
    if (!has_model) throw;
    throw Error::input(str(error.message(), ". Without tokenizer.json in the folder, tokenizer.model is taken"));
  }
}

std::vector<AddedToken> special_tokens(const SentencepieceModel& model, const std::vector<AddedToken>& added) {
  std::vector<AddedToken> special;
  for (std::size_t token = 0; token < model.pieces().size(); ++token) {
    const Piece& piece = model.pieces()[token];
    if (piece.type == PieceType::control) special.push_back({static_cast<Token>(token), piece.name});
  }
  special.insert(special.end(), added.begin(), added.end());
  return special;
}

std::unique_ptr<SentencepieceModel> make_sentencepiece_model(const std::filesystem::path& folder,
                                                             std::string serialized) {
  refuse_stand_in(folder / sentencepiece_file_name, serialized);
  try {
    return std::make_unique<SentencepieceModel>(std::move(serialized));
  } catch (const Error& error) {
    throw Error::input(str((folder / sentencepiece_file_name).string(),
                           ": not a sentencepiece model that inkling computes, or a damaged one: ", error.message(),
                           "; if the file is as it was published, take another model; if not, fetch it again"));
  }
}

std::unique_ptr<Tokenizer> make_foreign_sentencepiece(std::unique_ptr<SentencepieceModel> model,
                                                      SentencepieceRules rules) {
  check_rules(*model, rules);
  return std::make_unique<ForeignSentencepiece>(std::move(model), std::move(rules));
}

}  // namespace inkling
