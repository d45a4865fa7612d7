#include "text/sentencepiece_library.h"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <charconv>

#include "base/error.h"
#include "base/strings.h"

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

// "<0x0A>" is the byte 10.
std::string byte_of_piece(const std::string& name) {
  unsigned value = 0;
  std::from_chars(name.data() + 3, name.data() + 5, value, 16);
  return std::string(1, static_cast<char>(value));
}

std::string with_spaces(std::string piece) {
  for (auto at = piece.find(space_sign); at != std::string::npos; at = piece.find(space_sign, at + 1)) {
    piece.replace(at, space_sign.size(), " ");
  }
  return piece;
}

}  // namespace

struct SentencepieceModel::Processor {
  sentencepiece::SentencePieceProcessor library;
};

SentencepieceModel::SentencepieceModel(std::string serialized)
    : serialized_(std::move(serialized)), processor_(std::make_unique<Processor>()) {
  const auto status = processor_->library.LoadFromSerializedProto(serialized_);
  if (!status.ok()) throw Error::input(str("not a sentencepiece model: ", status.message()));
  settings_ = read_sentencepiece_settings(serialized_);
}

SentencepieceModel::~SentencepieceModel() = default;

std::vector<Piece> SentencepieceModel::pieces() const {
  const auto& library = processor_->library;
  std::vector<Piece> pieces;
  for (int id = 0; id < library.GetPieceSize(); ++id) {
    Piece piece{PieceType::text, {}, library.IdToPiece(id), library.GetScore(id)};
    if (library.IsUnknown(id)) {
      piece.type = PieceType::unknown;
    } else if (library.IsControl(id)) {
      piece.type = PieceType::separator;
    } else if (library.IsByte(id)) {
      piece.type = PieceType::byte;
      piece.bytes = byte_of_piece(piece.name);
    } else {
      piece.bytes = with_spaces(piece.name);
    }
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

void SentencepieceModel::encode(std::string_view text, std::vector<Token>& tokens) const {
  std::vector<int> ids;
  const auto status = processor_->library.Encode(text, &ids);
  if (!status.ok()) throw Error::internal(str("sentencepiece cannot encode a line: ", status.message()));
  tokens.insert(tokens.end(), ids.begin(), ids.end());
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
