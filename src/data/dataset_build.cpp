#include "data/dataset_parts.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/ordered_work.h"
#include "base/strings.h"
#include "data/name_counter.h"
#include "formats/token_file.h"
#include "text/build_tokenizer.h"
#include "text/text_cuts.h"
#include "text/tokenizer_kind.h"

namespace inkling {

namespace {

constexpr std::size_t batch_bytes = std::size_t{256} << 10;

// Consecutive parts of a split, large enough to be worth a thread's while, and what became of them.
struct Batch {
  struct Part {
    std::size_t length = 0;  // in the text
    Place place;
    bool begins_document = false;
    bool ends_document = false;
  };

  explicit Batch(Split its_split) : split(its_split) {}

  Split split;
  std::string text;
  std::vector<Part> parts;
  std::vector<Token> tokens;
};

void encode_batch(const Tokenizer& tokenizer, bool with_separators, Batch& batch) {
  const std::optional<Token> start = document_start(tokenizer);
  std::string_view rest = batch.text;
  for (const Batch::Part& part : batch.parts) {
    if (part.begins_document && start) batch.tokens.push_back(*start);
    const std::string_view text = rest.substr(0, part.length);
    take_part(
        {batch.split, text, part.place}, [&] { tokenizer.encode_part(text, part.begins_document, batch.tokens); },
        [&](std::string_view line) { tokenizer.check(line); });
    if (part.ends_document && with_separators) batch.tokens.push_back(tokenizer.separator().value());
    rest.remove_prefix(part.length);
  }
}

// The tokens of one split on their way into numbered shards.
class SplitWriter {
 public:
  SplitWriter(std::uint64_t vocab_size, fs::path folder, std::string name, std::uint64_t max_shard_tokens)
      : width_(token_width_for(vocab_size)),
        folder_(std::move(folder)),
        name_(std::move(name)),
        max_shard_tokens_(max_shard_tokens) {}

  void add(const Batch& batch) {
    summary_.bytes += batch.text.size();
    for (const Batch::Part& part : batch.parts) summary_.documents += part.ends_document ? 1 : 0;
    summary_.tokens += batch.tokens.size();
    hasher_.update(std::as_bytes(std::span(batch.tokens)));
    if (!folder_.empty()) write(batch.tokens);
  }

  void end_document(const Place& place) { last_place_ = place; }

  SplitSummary finish() {
    if (shard_) shard_->commit();
    summary_.hash = hasher_.hex();
    if (last_place_.path != nullptr) summary_.ends_at = last_place_.text();
    return std::move(summary_);
  }

 private:
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

  TokenWidth width_;
  fs::path folder_;
  std::string name_;
  std::uint64_t max_shard_tokens_;
  Hasher hasher_;
  Place last_place_;
  SplitSummary summary_;
  std::unique_ptr<TokenShardWriter> shard_;
};

// Zero bytes in text, which are mostly what is left of another encoding or of a program's file.
class ZeroBytes {
 public:
  void add(const PartOfText& part) {
    const std::size_t zero = part.text.find('\0');
    if (zero == std::string_view::npos) return;
    const auto begin = part.text.begin();
    const auto lines = part.place.one_line ? 0 : std::count(begin, begin + static_cast<std::ptrdiff_t>(zero), '\n');
    if (count_ == 0) first_ = str(part.place.path->string(), ":", part.place.line + static_cast<std::uint64_t>(lines));
    count_ += static_cast<std::uint64_t>(std::count(begin, part.text.end(), '\0'));
  }

  void warn() const {
    if (count_ == 0) return;
    log_warning(str(format_count(count_), count_ == 1 ? " zero byte" : " zero bytes",
                    " in the text will be learned as characters: is it UTF-8? The first is at ", first_,
                    "; tr -d '\\000' removes them"));
  }

 private:
  std::uint64_t count_ = 0;
  std::string first_;
};

}  // namespace

std::unique_ptr<Tokenizer> build_tokenizer(const TokenizerConfig& config, const Corpus& corpus) {
  const auto read = [&](const char* task, const PartLength& part_length, const TakePart& take) {
    TextVisitor visitor;
    visitor.part_length = part_length;
    visitor.part = [&](const PartOfText& part) {
      take_part(part, [&] { take(part.text, part.split == Split::train); }, require_utf8);
    };
    visitor.end_document = [](Split, const Place&) {};
    visit_corpus(corpus, visitor, task);
  };
  if (tokenizer_learns(config)) log_info(str("learning a vocabulary of ", format_count(config.vocab_size), " tokens"));
  return build_tokenizer(config, read, corpus.several_documents);
}

void check_text(const Corpus& corpus) {
  bool any = false;
  TextVisitor visitor;
  visitor.part_length = next_lines_length;
  visitor.part = [&](const PartOfText& part) {
    take_part(part, [&] { require_utf8(part.text); }, require_utf8);
    any = true;
  };
  visitor.end_document = [](Split, const Place&) {};
  NameCounter names({});
  names.watch(visitor);
  LoneSurrogates lone;
  visitor.lone_surrogates = [&](const Place& place, std::size_t count) { lone.add(place, count); };
  visit_corpus(corpus, visitor, "reading");
  if (!any) throw Error::input("there is no text to train a tokenizer on: check data.source");
  lone.warn();
  names.warn(corpus.separator);
}

Manifest encode_corpus(const Corpus& corpus, const Tokenizer& tokenizer, const EncodingOptions& options) {
  SplitWriter train(tokenizer.vocab_size(), options.folder, "train", options.max_shard_tokens);
  SplitWriter validation(tokenizer.vocab_size(), options.folder, "validation", options.max_shard_tokens);
  const auto writer = [&](Split split) -> SplitWriter& { return split == Split::train ? train : validation; };
  OrderedWork<Batch> work(
      options.threads, [&](Batch& batch) { encode_batch(tokenizer, corpus.several_documents, batch); },
      [&](Batch& batch) { writer(batch.split).add(batch); });

  Batch batch(Split::train);
  const auto send = [&](Split next) {
    if (!batch.parts.empty()) work.push(std::exchange(batch, Batch(next)));
    batch.split = next;
  };
  TextVisitor visitor;
  ZeroBytes zeros;
  bool between_documents = true;
  visitor.part_length = [&](std::string_view text, bool more) { return tokenizer.part_length(text, more); };
  visitor.part = [&](const PartOfText& part) {
    zeros.add(part);
    if (part.split != batch.split || batch.text.size() >= batch_bytes) send(part.split);
    batch.text += part.text;
    batch.parts.push_back({part.text.size(), part.place, std::exchange(between_documents, false)});
  };
  visitor.end_document = [&](Split split, const Place& place) {
    batch.parts.back().ends_document = between_documents = true;
    writer(split).end_document(place);
  };
  NameCounter names(tokenizer.special_tokens());
  names.watch(visitor);
  LoneSurrogates lone;
  visitor.lone_surrogates = [&](const Place& place, std::size_t count) { lone.add(place, count); };
  const std::vector<std::string> hashes = visit_corpus(corpus, visitor, "encoding");
  lone.warn();
  if (tokenizer.kind() != "byte") zeros.warn();
  names.warn(corpus.separator);
  send(Split::train);
  work.finish();

  Manifest manifest;
  for (std::size_t i = 0; i < hashes.size(); ++i) manifest.sources.emplace_back(corpus.files[i].file, hashes[i]);
  manifest.tokenizer_hash = tokenizer.hash();
  manifest.vocab_size = tokenizer.vocab_size();
  manifest.train = train.finish();
  manifest.validation = validation.finish();
  return manifest;
}

}  // namespace inkling
