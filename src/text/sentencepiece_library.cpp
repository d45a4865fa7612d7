#include "text/sentencepiece_file.h"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>

#include "base/error.h"
#include "base/strings.h"
#include "text/tokenizer_kind.h"

namespace inkling {

namespace {

// Hands the sentences of a function to the trainer.
class Sentences final : public sentencepiece::SentenceIterator {
 public:
  explicit Sentences(const std::function<bool(std::string&)>& next) : next_(next) { Next(); }

  bool done() const override { return done_; }
  void Next() override { done_ = !next_(sentence_); }
  const std::string& value() const override { return sentence_; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  const std::function<bool(std::string&)>& next_;
  std::string sentence_;
  bool done_ = false;
};

// The token of each byte; none if a byte has no piece.
std::optional<std::array<Token, 256>> find_byte_tokens(const std::vector<Piece>& pieces) {
  std::array<Token, 256> tokens{};
  std::size_t found = 0;
  for (std::size_t token = 0; token < pieces.size(); ++token) {
    if (pieces[token].type != PieceType::byte) continue;
    tokens[static_cast<unsigned char>(pieces[token].bytes[0])] = static_cast<Token>(token);
    ++found;
  }
  return found == tokens.size() ? std::optional(tokens) : std::nullopt;
}

std::vector<char32_t> find_characters(const std::vector<Piece>& pieces) {
  std::vector<char32_t> characters;
  for (const Piece& piece : pieces) {
    std::size_t end = 0;
    if (piece.type != PieceType::text && piece.type != PieceType::user_defined) continue;
    const char32_t first = decode_utf8(piece.bytes, end);
    if (end == piece.bytes.size()) characters.push_back(first);
  }
  std::sort(characters.begin(), characters.end());
  return characters;
}

}  // namespace

struct SentencepieceModel::Processor {
  sentencepiece::SentencePieceProcessor library;
};

SentencepieceModel::SentencepieceModel(std::string serialized)
    : serialized_(std::move(serialized)),
      file_(read_sentencepiece_file(serialized_)),
      byte_tokens_(find_byte_tokens(file_.pieces)),
      characters_(find_characters(file_.pieces)),
      processor_(std::make_unique<Processor>()) {
  const auto status = processor_->library.LoadFromSerializedProto(sentencepiece_to_encode_by(serialized_));
  if (!status.ok()) throw Error::input(str("pieces: ", status.message()));
}

SentencepieceModel::~SentencepieceModel() = default;

bool SentencepieceModel::has_character(char32_t character) const {
  return std::binary_search(characters_.begin(), characters_.end(), character);
}

void SentencepieceModel::check(std::string_view text) const {
  require_utf8(text);
  if (spells_bytes()) return;
  std::vector<char32_t> unknown;
  for (std::size_t offset = 0; offset < text.size();) {
    const char32_t character = decode_utf8(text, offset);
    if (has_character(character)) continue;
    if (std::find(unknown.begin(), unknown.end(), character) == unknown.end()) unknown.push_back(character);
  }
  if (!unknown.empty()) refuse_characters(unknown);
}

void SentencepieceModel::encode(std::string_view text, std::vector<Token>& tokens) const {
  const bool has_space = has_character(U' ');
  std::vector<int> ids;
  while (!text.empty()) {
    const std::size_t spelled = std::min(text.find(space_sign), has_space ? text.size() : text.find(' '));
    const auto status = processor_->library.Encode(text.substr(0, spelled), &ids);
    if (!status.ok()) throw Error::internal(str("sentencepiece cannot encode a text: ", status.message()));
    tokens.insert(tokens.end(), ids.begin(), ids.end());
    if (spelled >= text.size()) return;
    text.remove_prefix(spelled);
    const std::string_view sign = text.substr(0, text.starts_with(' ') ? 1 : space_sign.size());
    for (const char byte : sign) tokens.push_back((*byte_tokens_)[static_cast<unsigned char>(byte)]);
    text.remove_prefix(sign.size());
  }
}

std::string train_sentencepiece_model(const TokenizerConfig& config, bool with_separator,
                                      const std::function<bool(std::string&)>& next) {
  Sentences sentences(next);
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train(
      {
          {"model_type", config.model_type == PieceModel::bpe ? "bpe" : "unigram"},
          {"vocab_size", std::to_string(config.vocab_size)},
          {"hard_vocab_limit", "false"},  // the caller tells what is possible, from the size that came out
          {"character_coverage", format_shortest(config.character_coverage)},
          {"byte_fallback", "true"},
          {"max_sentence_length", std::to_string(max_sentence_bytes)},
          {"normalization_rule_name", "identity"},
          {"add_dummy_prefix", "false"},
          {"remove_extra_whitespaces", "false"},
          {"allow_whitespace_only_pieces", "true"},  // indentation in one token
          {"unk_id", "0"},
          {"eos_id", with_separator ? "1" : "-1"},
          {"bos_id", "-1"},
          {"pad_id", "-1"},
          {"num_threads", "4"},  // sums of floats are grouped by thread: another number gives another model
      },
      &sentences, &model);
  if (!status.ok()) throw Error::input(status.message());
  return model;
}

}  // namespace inkling
