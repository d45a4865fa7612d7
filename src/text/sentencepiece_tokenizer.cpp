#include <string>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/strings.h"
#include "text/foreign_sentencepiece.h"
#include "text/hugging_face_files.h"
#include "text/line_cuts.h"
#include "text/sentencepiece_library.h"
#include "text/tokenizer_errors.h"
#include "text/tokenizer_kind.h"

namespace inkling {

namespace {

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
