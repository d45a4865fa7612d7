#include "train/evaluate.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/progress.h"
#include "base/strings.h"
#include "runtime/cpu_memory.h"
#include "runtime/device_facts.h"

namespace inkling {
namespace {

constexpr std::int64_t max_pieces_together = 64;

// Returns the bytes that logits and one layer at work may take: on the CPU as many as its caches hold, on a GPU a share
// of all its memory, free or not, because an evaluation's numbers depend on how many pieces are computed together.
std::int64_t bytes_together(at::Device device) {
  const auto memory = device_memory(device);
  return memory ? static_cast<std::int64_t>(memory->total / 64) : std::int64_t{8} << 20;
}

// What the model sees in front of the first target, and the targets.
struct Piece {
  Token first = 0;
  std::vector<Token> targets;
};

// Returns the nats of each piece, on the model's device. Pieces have at most block_size targets; shorter ones are
// padded with targets that are not scored.
at::Tensor score_batch(const Model& model, const Runtime& runtime, const std::vector<Piece>& pieces) {
  std::size_t longest = 0;
  for (const Piece& piece : pieces) longest = std::max(longest, piece.targets.size());
  const auto rows = static_cast<std::int64_t>(pieces.size());
  const auto width = static_cast<std::int64_t>(longest);
  const at::Tensor tokens = at::zeros({rows, width}, at::kLong);
  const at::Tensor targets = at::full({rows, width}, not_scored, at::kLong);
  for (std::int64_t row = 0; row < rows; ++row) {
    const Piece& piece = pieces[static_cast<std::size_t>(row)];
    std::int64_t* const in = tokens.data_ptr<std::int64_t>() + row * width;
    in[0] = piece.first;
    std::copy(piece.targets.begin(), piece.targets.end() - 1, in + 1);
    std::copy(piece.targets.begin(), piece.targets.end(), targets.data_ptr<std::int64_t>() + row * width);
  }
  const at::NoGradGuard no_gradient;
  const at::Tensor logits = model.logits(tokens.to(runtime.device)).flatten(0, 1).to(at::kFloat);
  const at::Tensor nats =
      at::cross_entropy_loss(logits, targets.to(runtime.device).flatten(), {}, 0 /* each alone */, not_scored);
  return nats.view({rows, width}).to(at::kDouble).sum(1);
}

// Scores pieces 0 to count - 1 in the given order, a batch at a time; read(i) makes piece i.
template <typename Read>
std::vector<ScoredPiece> score_all(const Model& model, const Runtime& runtime, const std::vector<std::size_t>& order,
                                   const Read& read) {
  const GptShape& shape = model.shape();
  const std::int64_t piece_bytes =
      shape.block_size * (shape.vocab_size + 12 * shape.n_embd) * static_cast<std::int64_t>(sizeof(float));
  const auto together = static_cast<std::size_t>(
      std::clamp<std::int64_t>(bytes_together(runtime.device) / piece_bytes, 1, max_pieces_together));
  std::vector<ScoredPiece> scored(order.size());
  std::vector<at::Tensor> nats = {at::empty({0}, at::TensorOptions().dtype(at::kDouble).device(runtime.device))};
  Progress progress("evaluating", order.size(), "pieces");
  for (std::size_t begin = 0; begin < order.size(); begin += together) {
    const std::size_t end = std::min(begin + together, order.size());
    std::vector<Piece> pieces;
    for (std::size_t i = begin; i < end; ++i) pieces.push_back(read(order[i]));
    nats.push_back(score_batch(model, runtime, pieces));
    for (std::size_t i = begin; i < end; ++i) scored[order[i]].tokens = pieces[i - begin].targets.size();
    give_back_cpu_memory();  // the next batch has sizes of its own
    progress.update(end);
  }
  const at::Tensor all = at::cat(nats).to(at::kCPU);  // a GPU is waited for once
  for (std::size_t i = 0; i < order.size(); ++i) scored[order[i]].nats = all.data_ptr<double>()[i];
  return scored;
}

// Sum of x over sum of n, and its standard error over pieces (the ratio estimator; Cochran 1977, chapter 6).
struct Ratio {
  double value = 0, standard_error = 0;
};

Ratio ratio(const std::vector<double>& x, const std::vector<ScoredPiece>& pieces) {
  double total = 0;
  double tokens = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    total += x[i];
    tokens += static_cast<double>(pieces[i].tokens);
  }
  const double value = total / tokens;
  double squares = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const double residual = x[i] - value * static_cast<double>(pieces[i].tokens);
    squares += residual * residual;
  }
  const auto count = static_cast<double>(pieces.size());
  if (pieces.size() < 2) return {value, std::numeric_limits<double>::quiet_NaN()};
  return {value, std::sqrt(squares * count / (count - 1)) / tokens};
}

Evaluation summarize(const std::vector<ScoredPiece>& pieces) {
  std::vector<double> nats;
  Evaluation evaluation;
  for (const ScoredPiece& piece : pieces) {
    nats.push_back(piece.nats);
    evaluation.tokens += piece.tokens;
  }
  const Ratio loss = ratio(nats, pieces);
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
                                       std::uint64_t limit) {
  const auto block_size = static_cast<std::uint64_t>(model.shape().block_size);
  const std::uint64_t targets = sequence.count() < 2 ? 0 : sequence.count() - 1;
  std::uint64_t windows = (targets + block_size - 1) / block_size;
  if (limit > 0) windows = std::min(windows, limit);
  std::vector<std::size_t> order(windows);
  std::iota(order.begin(), order.end(), std::size_t{0});
  return score_all(model, runtime, order, [&](std::size_t window) {
    const std::uint64_t start = window * block_size;
    std::vector<Token> tokens(std::min(block_size, targets - start) + 1);
    sequence.read(start, tokens);
    return Piece{tokens.front(), {tokens.begin() + 1, tokens.end()}};
  });
}

std::vector<ScoredPiece> score_stories(const Model& model, const Runtime& runtime, const TokenSequence& sequence,
                                       Token separator, const std::vector<StoryBound>& stories) {
  if (!fits(stories, model.shape().block_size)) throw Error::internal("a story is longer than a block");
  std::vector<std::uint64_t> starts(stories.size() + 1, 0);
  for (std::size_t i = 0; i < stories.size(); ++i) starts[i + 1] = starts[i] + stories[i].tokens;
  if (starts.back() > sequence.count())
    throw Error::input(
        "the bound is for more stories than the validation split has: "
        "inkling-prepare --verify makes both anew");
  // Stories of similar length are scored together, so that little is padded.
  std::vector<std::size_t> order(stories.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return stories[a].tokens > stories[b].tokens; });
  return score_all(model, runtime, order, [&](std::size_t story) {
    Piece piece{separator, std::vector<Token>(stories[story].tokens)};
    sequence.read(starts[story], piece.targets);
    if (piece.targets.back() != separator)
      throw Error::input(
          "the bound does not belong to the validation split: "
          "inkling-prepare --verify makes both anew");
    return piece;
  });
}

double Evaluation::perplexity() const { return std::exp(loss); }

Evaluation evaluate_validation(const Model& model, const Runtime& runtime, const Dataset& dataset,
                               std::uint64_t limit) {
  if (dataset.vocab_size > static_cast<std::uint64_t>(model.shape().vocab_size)) {
    throw Error::input(str("the data in ", dataset.folder.string(), " has a vocabulary of ",
                           format_count(dataset.vocab_size), " tokens and the model knows ", model.shape().vocab_size,
                           ": it was trained on other data"));
  }
  const TokenSequence sequence(dataset.validation.shards, dataset.vocab_size);
  Evaluation evaluation;
  std::vector<StoryBound> stories;
  if (dataset.bound_file) stories = read_validation_bound(*dataset.bound_file).stories;
  if (!stories.empty() && fits(stories, model.shape().block_size)) {
    if (limit > 0 && limit < stories.size()) stories.resize(limit);
    const auto pieces = score_stories(model, runtime, sequence, dataset.tokenizer->separator().value(), stories);
    evaluation = summarize(pieces);
    evaluation.bound = compare(pieces, stories);
  } else {
    const auto pieces = score_windows(model, runtime, sequence, limit);
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
