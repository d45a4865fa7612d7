#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <vector>

#include "base/child_process.h"
#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/strings.h"
#include "text/build_tokenizer.h"
#include "text/foreign_tokenizer.h"
#include "text/hugging_face_files.h"
#include "text/sentencepiece_file.h"
#include "text/text_cuts.h"
#include "text/tokenizer_kind.h"

namespace inkling {

namespace {

constexpr std::uint64_t sample_seed = 1;  // another one would give every long text another model

// Cuts a line where the trainer would otherwise drop all of it, or read U+2581 as a space.
void append_sentences(std::string_view line, std::vector<std::string_view>& sentences) {
  while (!line.empty()) {
    const std::size_t sign = std::min({line.find(space_sign), line.find(rare_sign), line.size()});
    std::string_view text = line.substr(0, sign);
    line.remove_prefix(std::min(line.size(), sign + space_sign.size()));
    while (!text.empty()) {
      const std::size_t length = text.size() > max_sentence_bytes ? cut_within(text, max_sentence_bytes) : text.size();
      sentences.push_back(text.substr(0, length));
      text.remove_prefix(length);
    }
  }
}

// The number behind the last "vs " of "Vocabulary size is smaller than required_chars. 300 vs 343. …".
std::optional<std::uint64_t> required_size(std::string_view refusal) {
  constexpr std::string_view mark = " vs ";
  const std::size_t at = refusal.find(mark);
  std::uint64_t size = 0;
  if (refusal.find("smaller than required_chars") == std::string_view::npos || at == std::string_view::npos) return {};
  const char* begin = refusal.data() + at + mark.size();
  return std::from_chars(begin, refusal.data() + refusal.size(), size).ec == std::errc() ? std::optional(size)
                                                                                         : std::nullopt;
}

[[noreturn]] void refuse_training(const TokenizerConfig& config, const std::string& refusal) {
  if (const auto required = required_size(refusal)) {
    throw Error::input(str("data.tokenizer.vocab_size: ", config.vocab_size, " is too small: the characters of this ",
                           "text and the 256 bytes need ", *required, "; write ", *required,
                           " or more, or a lower data.tokenizer.character_coverage"));
  }
  throw Error::input(str("sentencepiece cannot be trained on this text: ", refusal,
                         ". Take more text, or choose data.tokenizer.kind: char or byte"));
}

constexpr char trained = '+', refused = '-';

// Returns the model or the reason why there is none, marked by its first character.
std::string train_or_refusal(const TokenizerConfig& config, bool with_separator,
                             const std::vector<std::string_view>& sentences) {
  std::size_t next = 0;
  const auto next_sentence = [&](std::string& sentence) {
    if (next == sentences.size()) return false;
    sentence = sentences[next++];
    return true;
  };
  try {
    return trained + train_sentencepiece_model(config, with_separator, next_sentence);
  } catch (const Error& error) {
    return refused + error.message();
  }
}

// A model that inkling has trained: it keeps pieces inside lines, which are encoded one by one.
class SentencepieceTokenizer final : public Tokenizer {
 public:
  explicit SentencepieceTokenizer(std::string serialized) : model_(std::move(serialized)) {
    for (std::size_t token = 0; token < model_.pieces().size(); ++token) {
      if (model_.pieces()[token].type == PieceType::control) separator_ = static_cast<Token>(token);
    }
    if (!model_.spells_bytes()) {
      throw Error::input("a sentencepiece model without byte fallback: it cannot spell every text");
    }
  }

  std::string kind() const override { return "sentencepiece"; }
  std::uint64_t vocab_size() const override { return model_.pieces().size(); }
  std::optional<Token> separator() const override { return separator_; }
  std::vector<AddedToken> special_tokens() const override { return inkling::special_tokens(model_, {}); }
  void check(std::string_view text) const override { model_.check(text); }

  void encode_part(std::string_view part, bool, std::vector<Token>& tokens) const override {
    check(part);
    while (!part.empty()) {
      const std::size_t length = next_line_length(part);
      model_.encode(part.substr(0, length), tokens);
      part.remove_prefix(length);
    }
  }

  std::string decode(Token token) const override {
    require_token(token, vocab_size());
    return model_.pieces()[token].bytes;
  }

  void save(const std::filesystem::path& folder) const override {
    write_file(folder / sentencepiece_file_name, model_.serialized());
    write_description(folder, description());
    const auto name = separator_ ? std::optional(model_.pieces()[*separator_].name) : std::nullopt;
    write_hugging_face_files(folder, print_sentencepiece_tokenizer(model_), {name, name});
  }

  std::string hash() const override { return hash_text(print_description(description())); }

 private:
  TokenizerDescription description() const {
    return {.kind = kind(), .separator = separator_.has_value(), .model_hash = hash_text(model_.serialized())};
  }

  SentencepieceModel model_;
  std::optional<Token> separator_;
};

}  // namespace

SentencepieceTrainer::SentencepieceTrainer(const TokenizerConfig& config, std::uint64_t sample_bytes)
    : config_(config), lines_(sample_seed, sample_bytes) {}

void SentencepieceTrainer::add(std::string_view lines) {
  require_utf8(lines);
  add_unlearned(lines);
  while (!lines.empty()) {
    const std::size_t length = next_line_length(lines);
    lines_.add(lines.substr(0, length));
    lines.remove_prefix(length);
  }
}

void SentencepieceTrainer::add_unlearned(std::string_view lines) {
  for (auto at = lines.find(space_sign); at != std::string_view::npos; at = lines.find(space_sign, at + 1)) {
    ++space_signs_;
  }
}

std::unique_ptr<Tokenizer> SentencepieceTrainer::finish(bool with_separator) {
  if (space_signs_ > 0) {
    log_warning(str("the text holds U+2581 (\xe2\x96\x81) ", format_count(space_signs_), " times. sentencepiece uses ",
                    "that sign for the space, so each is spelled as three byte tokens; it returns unchanged"));
  }
  std::vector<std::string_view> sentences;
  lines_.for_each([&](std::string_view line) { append_sentences(line, sentences); });
  if (sentences.empty()) throw Error::input("there is no text to train a tokenizer on: check data.source");

  const auto answer = run_in_child_process([&] { return train_or_refusal(config_, with_separator, sentences); });
  if (!answer || answer->empty()) {
    refuse_training(config_, "it gave up, as it does where a text is very short or the same over and over");
  }
  if (answer->front() == refused) refuse_training(config_, answer->substr(1));
  auto tokenizer = make_sentencepiece_tokenizer(with_rounded_scores(answer->substr(1)));
  if (tokenizer->vocab_size() < config_.vocab_size) {
    throw Error::input(str("data.tokenizer.vocab_size: ", config_.vocab_size,
                           " is more than this text has pieces for; ", "write ", tokenizer->vocab_size(), " or less"));
  }
  return tokenizer;
}

std::unique_ptr<Tokenizer> make_sentencepiece_tokenizer(std::string serialized_model) {
  return std::make_unique<SentencepieceTokenizer>(std::move(serialized_model));
}

static std::unique_ptr<Tokenizer> open_foreign_one(const std::filesystem::path& folder,
                                                   const TokenizerDescription& description, std::string serialized) {
  if (description.separator != description.separator_token.has_value()) {
    refuse_tokenizer(description_path(folder), "\"separator_token\" is not what \"separator\" says");
  }
  auto model = make_sentencepiece_model(folder, std::move(serialized));
  try {
    return make_foreign_sentencepiece(std::move(model), {.prefix_space = *description.prefix_space,
                                                         .separator = description.separator_token,
                                                         .first_token = description.first_token,
                                                         .added = description.added_tokens});
  } catch (const Error& error) {
    refuse_tokenizer(description_path(folder), error.message());
  }
}

static std::unique_ptr<Tokenizer> open_sentencepiece_tokenizer(const std::filesystem::path& folder,
                                                               const TokenizerDescription& description) {
  std::string serialized = read_described_file(folder, sentencepiece_file_name, description);
  if (description.prefix_space) return open_foreign_one(folder, description, std::move(serialized));
  std::unique_ptr<Tokenizer> tokenizer;
  try {
    tokenizer = make_sentencepiece_tokenizer(std::move(serialized));
  } catch (const Error& error) {
    refuse_tokenizer(folder / sentencepiece_file_name, error.message());
  }
  if (tokenizer->separator().has_value() != description.separator) {
    refuse_tokenizer(description_path(folder), "\"separator\" is not what tokenizer.model says");
  }
  return tokenizer;
}

static std::unique_ptr<Tokenizer> build_sentencepiece_tokenizer(const TokenizerConfig& config, const ReadParts& read,
                                                                bool with_separator) {
  SentencepieceTrainer trainer(config);
  read("sampling lines", next_lines_length, [&](std::string_view lines, bool is_trained_on) {
    is_trained_on ? trainer.add(lines) : trainer.add_unlearned(lines);
  });
  log_info(str("training a sentencepiece model of ", format_count(config.vocab_size), " tokens"));
  return trainer.finish(with_separator);
}

extern const TokenizerFunctions sentencepiece_tokenizer;
const TokenizerFunctions sentencepiece_tokenizer = {.learns = [](const TokenizerConfig&) { return true; },
                                                    .build = build_sentencepiece_tokenizer,
                                                    .open = open_sentencepiece_tokenizer};

}  // namespace inkling
