#include "evaluate/validation.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/progress.h"
#include "base/strings.h"
#include "evaluate/score.h"

namespace inkling {
namespace {

// What a batch of the validation split holds never depends on the lengths in it, so that its numbers stay comparable.
std::size_t together(const Model& model, const Runtime& runtime) {
  return passages_together(model, runtime, model.shape().block_size);
}

Evaluation summarize(const std::vector<ScoredPiece>& pieces) {
  Evaluation evaluation;
  for (const ScoredPiece& piece : pieces) evaluation.tokens += piece.tokens;
  const Ratio loss = loss_of(pieces);
  evaluation.loss = loss.value;
  evaluation.standard_error = loss.standard_error;
  evaluation.pieces = pieces.size();
  return evaluation;
}

BoundComparison compare(const std::vector<ScoredPiece>& pieces, const std::vector<StoryBound>& stories) {
  std::vector<double> best, excess;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    best.push_back(stories[i].nats);
    excess.push_back(pieces[i].nats - stories[i].nats);
  }
  const Ratio above = ratio(excess, pieces);
  return {ratio(best, pieces).value, above.value, above.standard_error};
}

std::uint64_t longest_story(const std::vector<StoryBound>& stories) {
  std::uint64_t longest = 0;
  for (const StoryBound& story : stories) longest = std::max(longest, story.tokens);
  return longest;
}

bool fits(const std::vector<StoryBound>& stories, std::int64_t block_size) {
  return longest_story(stories) <= static_cast<std::uint64_t>(block_size);
}

}  // namespace

std::vector<ScoredPiece> score_windows(const Model& model, const Runtime& runtime, const TokenSequence& sequence,
                                       std::uint64_t limit, std::optional<std::int64_t> stride,
                                       std::optional<Token> separator) {
  const std::int64_t block_size = model.shape().block_size;
  WindowCutter cutter(block_size, stride.value_or(block_size));
  const WindowCutter untouched = cutter;
  PassageScorer scorer(model, runtime);
  Progress progress("evaluating", sequence.count(), "tokens");
  std::uint64_t windows = 0;
  const auto score = [&](std::optional<Passage> window) {
    if (!window || (limit > 0 && windows == limit)) return false;
    scorer.add(std::move(*window), together(model, runtime));
    ++windows;
    return true;
  };
  std::vector<Token> read;
  for (std::uint64_t at = 0; at < sequence.count() && (limit == 0 || windows < limit); at += read.size()) {
    read.resize(std::min(static_cast<std::uint64_t>(block_size), sequence.count() - at));
    sequence.read(at, read);
    for (std::span<const Token> rest = read; !rest.empty();) {
      const auto end = separator ? std::find(rest.begin(), rest.end(), *separator) : rest.end();
      const bool ends = end != rest.end();
      const std::span<const Token> part = rest.first(static_cast<std::size_t>(end - rest.begin()) + (ends ? 1 : 0));
      cutter.add(part);
      while (score(cutter.next())) progress.update(at);
      if (ends) {
        score(cutter.last());
        cutter = untouched;
        cutter.add(part.last(1));  // the next document begins with it
      }
      rest = rest.subspan(part.size());
    }
  }
  score(cutter.last());
  Stretches stretches(block_size);
  for (const ScoredPiece& window : scorer.finish()) stretches.add(window);
  return stretches.pieces();
}

std::vector<ScoredPiece> score_stories(const Model& model, const Runtime& runtime, const TokenSequence& sequence,
                                       Token separator, const std::vector<StoryBound>& stories) {
  if (!fits(stories, model.shape().block_size)) throw Error::internal("a story is longer than a block");
  std::vector<std::uint64_t> starts(stories.size() + 1, 0);
  for (std::size_t i = 0; i < stories.size(); ++i) starts[i + 1] = starts[i] + stories[i].tokens;
  if (starts.back() > sequence.count())
    throw Error::input(
        "the bound is for more stories than the validation split has: "
        "inkling-prepare CONFIG --verify makes both anew");
  // Stories of similar length are scored together, so that little is padded.
  std::vector<std::size_t> order(stories.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return stories[a].tokens > stories[b].tokens; });
  PassageScorer scorer(model, runtime);
  Progress progress("evaluating", order.size(), "stories");
  for (std::size_t i = 0; i < order.size(); ++i) {
    Passage story{{separator}};
    story.tokens.resize(1 + stories[order[i]].tokens);
    sequence.read(starts[order[i]], std::span(story.tokens).subspan(1));
    if (story.tokens.back() != separator)
      throw Error::input(
          "the bound does not belong to the validation split: "
          "inkling-prepare CONFIG --verify makes both anew");
    scorer.add(std::move(story), together(model, runtime));
    progress.update(i);
  }
  const std::vector<ScoredPiece> scored = scorer.finish();
  std::vector<ScoredPiece> pieces(stories.size());
  for (std::size_t i = 0; i < order.size(); ++i) pieces[order[i]] = scored[i];
  return pieces;
}

double Evaluation::perplexity() const { return std::exp(loss); }

Evaluation evaluate_validation(const Model& model, const Runtime& runtime, const Dataset& dataset, std::uint64_t limit,
                               std::optional<std::int64_t> stride, std::optional<Token> separator) {
  if (stride) check_stride(*stride, model.shape().block_size);
  if (dataset.vocab_size > static_cast<std::uint64_t>(model.shape().vocab_size)) {
    throw Error::input(str("the data in ", dataset.folder.string(), " has a vocabulary of ",
                           format_count(dataset.vocab_size), " tokens and the model knows ", model.shape().vocab_size,
                           ": the model was trained on other data"));
  }
  const TokenSequence sequence(dataset.validation.shards, dataset.vocab_size, dataset.validation.layout);
  Evaluation evaluation;
  std::vector<StoryBound> stories;
  if (dataset.bound_file) stories = read_validation_bound(*dataset.bound_file).stories;
  if (!stories.empty() && fits(stories, model.shape().block_size)) {
    if (limit > 0 && limit < stories.size()) stories.resize(limit);
    const auto pieces = score_stories(model, runtime, sequence, dataset.tokenizer->separator().value(), stories);
    evaluation = summarize(pieces);
    evaluation.bound = compare(pieces, stories);
  } else {
    const auto pieces = score_windows(model, runtime, sequence, limit, stride, separator);
    if (pieces.empty()) throw Error::input("the validation split holds fewer than two tokens: nothing can be scored");
    evaluation = summarize(pieces);
  }
  if (dataset.validation.bytes > 0) {
    const double bytes_per_token =
        static_cast<double>(dataset.validation.bytes) / static_cast<double>(sequence.count());
    evaluation.bits_per_byte = evaluation.loss / std::log(2.0) / bytes_per_token;
  }
  return evaluation;
}

std::optional<std::string> why_no_bound(const Dataset& dataset, std::int64_t block_size) {
  if (!dataset.bound_file) return std::nullopt;
  const std::vector<StoryBound> stories = read_validation_bound(*dataset.bound_file).stories;
  if (fits(stories, block_size)) return std::nullopt;
  return str("its longest story takes ", longest_story(stories), " tokens and model.block_size is ", block_size,
             ": the best possible loss is told only where every story fits into a block");
}

}  // namespace inkling
