#include "data/dataset_build.h"

#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/strings.h"
#include "formats/token_file.h"
#include "text/build_tokenizer.h"

namespace inkling {

namespace {

constexpr std::size_t tokens_per_append = 1 << 16;

// The tokens of one split on their way into numbered shards.
class SplitWriter {
 public:
  SplitWriter(const Tokenizer& tokenizer, fs::path folder, std::string name, std::uint64_t max_shard_tokens)
      : tokenizer_(tokenizer),
        width_(token_width_for(tokenizer.vocab_size())),
        folder_(std::move(folder)),
        name_(std::move(name)),
        max_shard_tokens_(max_shard_tokens) {}

  void add_piece(std::string_view piece) {
    tokenizer_.encode_line(piece, waiting_);
    summary_.bytes += piece.size();
    if (waiting_.size() >= tokens_per_append) flush();
  }

  void end_document(const Place& place, bool with_separator) {
    if (with_separator) waiting_.push_back(tokenizer_.separator().value());
    ++summary_.documents;
    last_place_ = place;
  }

  SplitSummary finish() {
    flush();
    if (shard_) shard_->commit();
    summary_.hash = hasher_.hex();
    if (last_place_.path != nullptr) summary_.ends_at = last_place_.text();
    return std::move(summary_);
  }

 private:
  void flush() {
    hasher_.update(std::as_bytes(std::span(waiting_)));
    summary_.tokens += waiting_.size();
    if (!folder_.empty()) write(waiting_);
    waiting_.clear();
  }

  void write(std::span<const Token> tokens) {
    while (!tokens.empty()) {
      if (shard_ && shard_->count() == max_shard_tokens_) {
        shard_->commit();
        shard_.reset();
      }
      if (!shard_) open_shard();
      const std::uint64_t room = max_shard_tokens_ - shard_->count();
      const std::size_t count = std::min<std::uint64_t>(room, tokens.size());
      shard_->append(tokens.first(count));
      tokens = tokens.subspan(count);
    }
  }

  void open_shard() {
    summary_.shards.push_back(folder_ / str(name_, "-", padded(summary_.shards.size(), 6), ".bin"));
    shard_ = std::make_unique<TokenShardWriter>(summary_.shards.back(), width_);
  }

  const Tokenizer& tokenizer_;
  TokenWidth width_;
  fs::path folder_;
  std::string name_;
  std::uint64_t max_shard_tokens_;
  std::vector<Token> waiting_;
  Hasher hasher_;
  Place last_place_;
  SplitSummary summary_;
  std::unique_ptr<TokenShardWriter> shard_;
};

}  // namespace

std::unique_ptr<Tokenizer> build_tokenizer(const TokenizerConfig& config, const Corpus& corpus) {
  const auto read = [&](const char* task, const TakePiece& take) {
    TextVisitor visitor;
    visitor.piece = [&](Split split, std::string_view piece) { take(piece, split == Split::train); };
    visitor.end_document = [](Split, const Place&) {};
    visit_corpus(corpus, visitor, task);
  };
  return build_tokenizer(config, read, corpus.several_documents);
}

Manifest encode_corpus(const Corpus& corpus, const Tokenizer& tokenizer, const fs::path& folder,
                       std::uint64_t max_shard_tokens) {
  SplitWriter train(tokenizer, folder, "train", max_shard_tokens);
  SplitWriter validation(tokenizer, folder, "validation", max_shard_tokens);
  const auto writer = [&](Split split) -> SplitWriter& { return split == Split::train ? train : validation; };
  TextVisitor visitor;
  visitor.piece = [&](Split split, std::string_view piece) { writer(split).add_piece(piece); };
  visitor.end_document = [&](Split split, const Place& place) {
    writer(split).end_document(place, corpus.several_documents);
  };
  const std::vector<std::string> hashes = visit_corpus(corpus, visitor, "encoding");

  Manifest manifest;
  for (std::size_t i = 0; i < hashes.size(); ++i) manifest.sources.emplace_back(corpus.files[i].file, hashes[i]);
  manifest.tokenizer_hash = tokenizer.hash();
  manifest.vocab_size = tokenizer.vocab_size();
  manifest.train = train.finish();
  manifest.validation = validation.finish();
  return manifest;
}

}  // namespace inkling
