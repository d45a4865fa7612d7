#include "evaluate/documents.h"

#include <cmath>
#include <limits>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/progress.h"
#include "base/strings.h"
#include "data/name_counter.h"
#include "data/source_reader.h"
#include "evaluate/score.h"
#include "formats/foreign_file.h"

namespace inkling {
namespace {

// Takes documents part by part and scores their windows, a pool at a time.
class DocumentScorer {
 public:
  DocumentScorer(const LoadedModel& model, const Tokenizer& tokenizer, std::int64_t stride)
      : model_(model),
        tokenizer_(tokenizer),
        stride_(stride),
        cutter_(block_size(), stride),
        stretches_(block_size()),
        in_front_(token_in_front(tokenizer)),
        pool_tokens_(tokens_of_pool(*model.model, model.runtime)) {}

  void add(std::size_t file, const PartOfText& part) {
    std::vector<Token> tokens;
    take_part(
        part, [&] { tokenizer_.encode_part(part.text, !open_, tokens); },
        [&](std::string_view line) { tokenizer_.check(line); });
    if (tokens.empty()) return;
    const bool first_is_scored = open_ || in_front_;
    if (!open_) begin(file, part.place.line);
    scores_.back().bytes += part.text.size();
    if (!first_is_scored) scores_.back().bytes -= text_bytes(tokens.front(), part.text);
    cutter_.add(tokens);
    while (auto window = cutter_.next()) take(std::move(*window));
  }

  void end_document() {
    if (!open_) return;  // a text without tokens
    if (auto window = cutter_.last()) take(std::move(*window));
    if (!has_windows_) scores_.pop_back();  // its only token has nothing in front
    open_ = false;
  }

  // `files` are those that add() has numbered.
  TextEvaluation finish(const std::vector<std::string>& files) {
    score_pool();
    TextEvaluation result;
    std::vector<ScoredPiece> pieces;
    for (const DocumentScore& score : scores_) {
      require_number(score.piece.nats, str(text_name(files[score.file]), ":", score.line));
      result.total.piece.nats += score.piece.nats;
      result.total.piece.tokens += score.piece.tokens;
      result.total.bytes += score.bytes;
      pieces.push_back(score.piece);
    }
    result.standard_error = loss_of(pieces.size() == 1 ? stretches_.pieces() : pieces).standard_error;
    result.documents = std::move(scores_);
    return result;
  }

 private:
  std::int64_t block_size() const { return model_.model->shape().block_size; }

  // Of the first token of a document: what it stands for without the prefix, which is no text.
  std::size_t text_bytes(Token first, std::string_view document) const {
    const std::size_t bytes = tokenizer_.decode(first).size(), prefix = tokenizer_.prefix_of(document).size();
    return bytes > prefix ? bytes - prefix : 0;
  }

  void begin(std::size_t file, std::uint64_t line) {
    open_ = true;
    has_windows_ = false;
    DocumentScore& score = scores_.emplace_back();
    score.file = file;
    score.line = line;
    cutter_ = WindowCutter(block_size(), stride_);
    if (in_front_) cutter_.add({&*in_front_, 1});
  }

  void take(Passage window) {
    has_windows_ = true;
    pooled_ += window.tokens.size();
    owners_.push_back(scores_.size() - 1);
    pool_.push_back(std::move(window));
    if (pooled_ >= pool_tokens_) score_pool();
  }

  void score_pool() {
    const std::vector<ScoredPiece> scored = score_passages(*model_.model, model_.runtime, pool_);
    for (std::size_t i = 0; i < scored.size(); ++i) {
      ScoredPiece& piece = scores_[owners_[i]].piece;
      piece.nats += scored[i].nats;
      piece.tokens += scored[i].tokens;
      if (owners_[i] == 0) stretches_.add(scored[i]);
    }
    progress_.update(scored_ += pooled_);
    pool_.clear();
    owners_.clear();
    pooled_ = 0;
  }

  const LoadedModel& model_;
  const Tokenizer& tokenizer_;
  std::int64_t stride_;
  WindowCutter cutter_;  // of the document at hand
  Stretches stretches_;  // of the first document
  std::optional<Token> in_front_;
  bool open_ = false;         // whether a document has begun and not ended
  bool has_windows_ = false;  // whether a token of it is scored
  std::vector<DocumentScore> scores_;
  std::vector<Passage> pool_;
  std::vector<std::size_t> owners_;  // the document of each
  std::size_t pool_tokens_, pooled_ = 0;
  std::uint64_t scored_ = 0;  // tokens, with those that were given
  Progress progress_{"evaluating", 0, "tokens"};
};

TextVisitor visitor_of(DocumentScorer& scorer, LoneSurrogates& lone, const Tokenizer& tokenizer,
                       const std::string& separator, std::size_t file) {
  return {.part_length = [&](std::string_view text, bool more) { return tokenizer.part_length(text, more); },
          .part = [&scorer, file](const PartOfText& part) { scorer.add(file, part); },
          .end_document = [&](Split, const Place&) { scorer.end_document(); },
          .advance = {},
          .lone_surrogates = [&lone](const Place& place, std::size_t count) { lone.add(place, count); },
          .separator = separator};
}

void read_standard_input(bool raw, const TextVisitor& visitor, const Tokenizer& tokenizer) {
  static const fs::path name = "standard input";
  const std::string read = read_small_file_or_pipe("/dev/stdin");
  std::string_view text = read;
  SourceFile file{.path = name, .kind = raw ? FileKind::raw : FileKind::text, .stamp = {}};
  file.any_encoding = tokenizer.kind() == "byte";
  refuse_foreign_front(file, text.substr(0, bytes_of_front));
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  visit_text(Split::validation, text, {&name, 1}, visitor);
}

// A document is read once, so that a pipe need not be saved as a file first, as examine_file() says of one.
void refuse_no_file(const std::string& path) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  if (fs::is_directory(status)) throw Error::input(str(path, " is a folder: name the files in it"));
  if (!fs::exists(status) || fs::is_regular_file(status)) return;
  throw Error::input(str(path, " is a pipe or a device: feed it to the standard input, which is called -"));
}

void read_file(const std::string& path, const TextSettings& settings, const Tokenizer& tokenizer,
               const TextVisitor& visitor) {
  refuse_no_file(path);
  SourceFile file = examine_file(path);
  if (settings.raw) file.kind = FileKind::raw;
  if (!settings.raw) refuse_foreign_name(path);
  file.any_encoding = tokenizer.kind() == "byte";
  if (file.kind == FileKind::tokens) throw Error::input(str(path, " holds tokens, not text: name the text instead"));
  if (file.kind == FileKind::grammar)
    throw Error::input(str(path, " is a grammar, not text: name a text of its stories"));
  visit_file({.file = file, .train_bytes = most_text_bytes(file)}, settings.jsonl_field, visitor);
}

}  // namespace

std::string text_name(const std::string& file) { return file == "-" ? "standard input" : file; }

double TextScore::loss() const { return piece.nats / static_cast<double>(piece.tokens); }

double TextScore::bits_per_byte() const { return piece.nats / std::log(2.0) / static_cast<double>(bytes); }

TextEvaluation evaluate_text(const LoadedModel& model, const TextSettings& settings) {
  const Tokenizer& tokenizer = require_tokenizer(model);
  DocumentScorer scorer(model, tokenizer, settings.stride.value_or(model.model->shape().block_size));
  LoneSurrogates lone;
  NameCounter names(tokenizer.special_tokens());
  for (std::size_t i = 0; i < settings.files.size(); ++i) {
    TextVisitor visitor = visitor_of(scorer, lone, tokenizer, settings.separator, i);
    names.watch(visitor);
    settings.files[i] == "-" ? read_standard_input(settings.raw, visitor, tokenizer)
                             : read_file(settings.files[i], settings, tokenizer, visitor);
  }
  TextEvaluation result = scorer.finish(settings.files);
  lone.warn();
  names.warn(settings.separator);
  if (result.total.piece.tokens == 0) {
    throw Error::input(
        str(join(settings.files, ", "), ": there is no text of which a token can be scored; name another"));
  }
  return result;
}

}  // namespace inkling
