#include "evaluate/score.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/stop_signals.h"
#include "base/strings.h"
#include "model/model.h"
#include "runtime/cpu_memory.h"
#include "runtime/device.h"

namespace inkling {
namespace {

constexpr std::int64_t max_passages_together = 64;

// Returns the bytes that logits and one layer at work may take: on the CPU as many as a core's cache holds, on a GPU a
// share of all its memory, free or not, because an evaluation's numbers depend on how many passages are computed
// together.
std::int64_t bytes_together(at::Device device) {
  const auto memory = device_memory(device);
  return memory ? static_cast<std::int64_t>(memory->total / 64) : std::int64_t{2} << 20;
}

// Of one passage of so many positions.
std::int64_t bytes_of_passage(const GptShape& shape, std::int64_t positions) {
  return positions * (shape.vocab_size + 12 * shape.n_embd) * static_cast<std::int64_t>(sizeof(float));
}

// Whether each thread has memory for a batch of its own.
bool shares_out_batches(const Model& model, const Runtime& runtime) {
  constexpr std::int64_t most_bytes = std::int64_t{128} << 20;
  const bool has_threads = computes_with_threads(runtime.device) && runtime.threads > 1;
  return has_threads && bytes_of_passage(model.shape(), model.shape().block_size) <= most_bytes;
}

// Returns the nats of each passage, on the model's device. Shorter ones are padded with what is not scored.
at::Tensor score_batch(const Model& model, const Runtime& runtime, std::span<const Passage> passages) {
  std::size_t longest = 0;
  for (const Passage& passage : passages) longest = std::max(longest, passage.tokens.size() - 1);
  const auto rows = static_cast<std::int64_t>(passages.size());
  const auto width = static_cast<std::int64_t>(longest);
  const at::Tensor tokens = at::zeros({rows, width}, at::kLong);
  const at::Tensor targets = at::full({rows, width}, not_scored, at::kLong);
  for (std::int64_t row = 0; row < rows; ++row) {
    const Passage& passage = passages[static_cast<std::size_t>(row)];
    const auto given = static_cast<std::ptrdiff_t>(passage.given);
    std::copy(passage.tokens.begin(), passage.tokens.end() - 1, tokens.data_ptr<std::int64_t>() + row * width);
    std::copy(passage.tokens.begin() + given, passage.tokens.end(),
              targets.data_ptr<std::int64_t>() + row * width + given - 1);
  }
  const at::NoGradGuard no_gradient;
  const at::Tensor logits = model.logits(tokens.to(runtime.device)).flatten(0, 1).to(at::kFloat);
  const at::Tensor nats =
      at::cross_entropy_loss(logits, targets.to(runtime.device).flatten(), {}, 0 /* each alone */, not_scored);
  return nats.view({rows, width}).to(at::kDouble).sum(1);
}

}  // namespace

void require_number(double nats, std::string_view of) {
  if (!std::isfinite(nats)) refuse_broken_answer(of);
}

void agree_on_batches(Runtime& runtime) { runtime.scoring_bytes = runtime.ranks.least(bytes_together(runtime.device)); }

std::size_t passages_together(const Model& model, const Runtime& runtime, std::int64_t positions) {
  const std::int64_t all = runtime.scoring_bytes > 0 ? runtime.scoring_bytes : bytes_together(runtime.device);
  return static_cast<std::size_t>(
      std::clamp<std::int64_t>(all / bytes_of_passage(model.shape(), positions), 1, max_passages_together));
}

std::size_t tokens_of_pool(const Model& model, const Runtime& runtime) {
  const std::int64_t block_size = model.shape().block_size;
  return 16 * passages_together(model, runtime, block_size) * static_cast<std::size_t>(block_size);
}

PassageScorer::PassageScorer(const Model& model, const Runtime& runtime)
    : model_(model),
      runtime_(runtime),
      nats_{at::empty({0}, at::TensorOptions().dtype(at::kDouble).device(runtime.device))} {
  if (shares_out_batches(model, runtime)) workers_.emplace(runtime.threads);
}

void PassageScorer::add(Passage passage, std::size_t together) {
  const bool begins = batches_.empty() || batches_.back().size() >= together_;
  if (begins) {
    batches_.emplace_back();
    together_ = together;
  }
  scored_.push_back({0, passage.scored()});
  batches_.back().push_back(std::move(passage));
  const std::size_t at_once = static_cast<std::size_t>(runtime_.ranks.count() * (workers_ ? workers_->count() : 1));
  if (batches_.size() == at_once && batches_.back().size() >= together_) compute();
}

void PassageScorer::compute() {
  if (runtime_.ranks.is_alone()) leave_if_stopped();
  is_stopped_ = is_stopped_ || stop_requested();
  const std::size_t before = nats_.size();
  for (const std::vector<Passage>& batch : batches_)
    nats_.push_back(at::zeros({std::ssize(batch)}, nats_[0].options()));
  const auto ranks = static_cast<std::size_t>(runtime_.ranks.count()),
             rank = static_cast<std::size_t>(runtime_.ranks.rank());
  const std::size_t own = rank < batches_.size() ? (batches_.size() - rank - 1) / ranks + 1 : 0;
  for_each(workers_, is_stopped_ ? 0 : static_cast<std::int64_t>(own), [&](std::int64_t i, int) {
    const std::size_t batch = rank + static_cast<std::size_t>(i) * ranks;
    nats_[before + batch] = score_batch(model_, runtime_, batches_[batch]);
  });
  batches_.clear();
  give_back_cpu_memory();  // the next batches have sizes of their own
}

std::vector<ScoredPiece> PassageScorer::finish() {
  if (!batches_.empty()) compute();
  const at::Tensor nats = at::cat(nats_).to(at::kCPU);
  const double* const first = nats.const_data_ptr<double>();
  std::vector<double> numbers(first, first + scored_.size());
  if (runtime_.ranks.add(numbers, is_stopped_)) throw Stopped();
  for (std::size_t i = 0; i < scored_.size(); ++i) scored_[i].nats = numbers[i];
  return std::move(scored_);
}

std::vector<ScoredPiece> score_passages(const Model& model, const Runtime& runtime, std::span<const Passage> passages) {
  std::vector<std::size_t> order(passages.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto positions = [&](std::size_t i) { return static_cast<std::int64_t>(passages[i].tokens.size()) - 1; };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return positions(a) > positions(b); });
  PassageScorer scorer(model, runtime);
  for (const std::size_t i : order) scorer.add(passages[i], passages_together(model, runtime, positions(i)));
  const std::vector<ScoredPiece> sorted = scorer.finish();
  std::vector<ScoredPiece> scored(passages.size());
  for (std::size_t i = 0; i < order.size(); ++i) scored[order[i]] = sorted[i];
  return scored;
}

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

Ratio loss_of(const std::vector<ScoredPiece>& pieces) {
  std::vector<double> nats;
  for (const ScoredPiece& piece : pieces) nats.push_back(piece.nats);
  return ratio(nats, pieces);
}

void check_stride(std::int64_t stride, std::int64_t block_size) {
  if (stride >= 1 && stride <= block_size) return;
  throw Error::input(
      str("the stride is ", stride, " and must be from 1 to ", block_size, ", which is the model's block_size"));
}

WindowCutter::WindowCutter(std::int64_t block_size, std::int64_t stride)
    : block_size_(static_cast<std::size_t>(block_size)), stride_(static_cast<std::size_t>(stride)) {
  check_stride(stride, block_size);
}

void WindowCutter::add(std::span<const Token> tokens) {
  tokens_.erase(tokens_.begin(), tokens_.begin() + static_cast<std::ptrdiff_t>(begin_));
  begin_ = 0;
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
}

Passage WindowCutter::cut(std::size_t length) {
  const auto first = tokens_.begin() + static_cast<std::ptrdiff_t>(begin_);
  return {{first, first + static_cast<std::ptrdiff_t>(length)}, given_};
}

std::optional<Passage> WindowCutter::next() {
  if (tokens_.size() - begin_ <= block_size_) return std::nullopt;
  Passage window = cut(block_size_ + 1);
  begin_ += stride_;
  given_ = block_size_ - stride_ + 1;
  return window;
}

std::optional<Passage> WindowCutter::last() {
  const std::size_t left = tokens_.size() - begin_;
  if (left <= given_) return std::nullopt;
  return cut(left);
}

void Stretches::add(const ScoredPiece& window) {
  const std::uint64_t stretch = scored_ / block_size_;
  if (stretch == pieces_.size()) pieces_.emplace_back();
  pieces_.back().nats += window.nats;
  pieces_.back().tokens += window.tokens;
  scored_ += window.tokens;
}

}  // namespace inkling
