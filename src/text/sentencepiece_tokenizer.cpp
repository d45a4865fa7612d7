#include <array>
#include <string>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/strings.h"
#include "text/hugging_face_files.h"
#include "text/line_cuts.h"
#include "text/sentencepiece_library.h"
#include "text/tokenizer_errors.h"
#include "text/tokenizer_kind.h"

namespace inkling {

namespace {

constexpr std::string_view unknown_text =
    "\xef\xbf\xbd";  // U+FFFD: no text encodes to "unknown", but it can be sampled

constexpr const char* model_name = "tokenizer.model";

class SentencepieceTokenizer final : public Tokenizer {
 public:
  explicit SentencepieceTokenizer(std::string serialized) : model_(std::move(serialized)), pieces_(model_.pieces()) {
    std::array<bool, 256> has_byte{};
    for (std::size_t id = 0; id < pieces_.size(); ++id) {
      const auto token = static_cast<Token>(id);
      if (pieces_[id].type == PieceType::separator) separator_ = token;
      if (pieces_[id].type == PieceType::unknown) pieces_[id].bytes = unknown_text;
      if (pieces_[id].type != PieceType::byte) continue;
      const auto byte = static_cast<unsigned char>(pieces_[id].bytes[0]);
      byte_tokens_[byte] = token;
      has_byte[byte] = true;
    }
    for (const bool present : has_byte) {
      if (!present) throw Error::input("a sentencepiece model without byte fallback: it cannot spell every text");
    }
  }

  std::string kind() const override { return "sentencepiece"; }
  std::uint64_t vocab_size() const override { return pieces_.size(); }
  std::optional<Token> separator() const override { return separator_; }
  void check(std::string_view text) const override { require_utf8(text); }

  void encode_part(std::string_view part, std::vector<Token>& tokens) const override {
    require_utf8(part);
    while (!part.empty()) {
      const std::size_t length = next_line_length(part);
      encode_line(part.substr(0, length), tokens);
      part.remove_prefix(length);
    }
  }

  std::string decode(Token token) const override {
    require_token(token, vocab_size());
    return pieces_[token].bytes;
  }

  void save(const std::filesystem::path& folder) const override {
    write_file(folder / model_name, model_.serialized());
    write_description(folder, description());
    write_hugging_face_files(folder, print_sentencepiece_tokenizer(model_),
                             separator_ ? std::optional(pieces_[*separator_].name) : std::nullopt);
  }

  std::string hash() const override { return hash_text(print_description(description())); }

 private:
  // The library would turn U+2581 into a space, so that sign is spelled in bytes and never shown to it.
  void encode_line(std::string_view line, std::vector<Token>& tokens) const {
    while (!line.empty()) {
      const std::size_t sign = line.find(space_sign);
      const std::string_view text = line.substr(0, sign);
      if (!text.empty()) model_.encode(text, tokens);
      line.remove_prefix(text.size());
      if (line.empty()) break;
      for (const char byte : space_sign) tokens.push_back(byte_tokens_[static_cast<unsigned char>(byte)]);
      line.remove_prefix(space_sign.size());
    }
  }

  TokenizerDescription description() const {
    return {.kind = kind(), .separator = separator_.has_value(), .model_hash = hash_text(model_.serialized())};
  }

  SentencepieceModel model_;
  std::vector<Piece> pieces_;
  std::array<Token, 256> byte_tokens_{};
  std::optional<Token> separator_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_sentencepiece_tokenizer(std::string serialized_model) {
  return std::make_unique<SentencepieceTokenizer>(std::move(serialized_model));
}

static std::unique_ptr<Tokenizer> open_sentencepiece_tokenizer(const std::filesystem::path& folder,
                                                               const TokenizerDescription& description) {
  std::string serialized = read_described_file(folder, model_name, description);
  std::unique_ptr<Tokenizer> tokenizer;
  try {
    tokenizer = make_sentencepiece_tokenizer(std::move(serialized));
  } catch (const Error& error) {
    refuse_tokenizer(folder / model_name, error.message());
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
