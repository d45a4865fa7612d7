#include "train/leaves.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/error.h"
#include "base/stop_signals.h"
#include "kernels/cpu_kernels.h"

namespace inkling {
namespace {

// Adds the largest sums within `all` that have no leaves but those of `mine`.
void add_sums(const LeafSum& all, const Range& mine, std::vector<LeafSum>& sums) {
  if (all.end <= mine.begin || mine.end <= all.begin) return;
  if (mine.begin <= all.begin && all.end <= mine.end) return sums.push_back(all);
  add_sums(all.first(), mine, sums);
  add_sums(all.second(), mine, sums);
}

// How many gradients there are at once while these leaves are added up: one for each level of the sum, and one more.
std::int64_t gradients_of(const LeafSum& sum) {
  return std::bit_width(static_cast<std::uint64_t>(sum.count() - 1)) + 1;
}

// While the sums are made one after the other, those before stay.
std::int64_t slots_for(const std::vector<LeafSum>& sums) {
  std::int64_t slots = 0, before = 0;
  for (const LeafSum& sum : sums) slots = std::max(slots, before++ + gradients_of(sum));
  return slots;
}

// Returns number i of `count` places that are spread evenly over `whole`: whole * i / count, whose product may be too
// large.
std::uint64_t spread(std::uint64_t i, std::uint64_t count, std::uint64_t whole) {
  return whole / count * i + whole % count * i / count;
}

}  // namespace

std::vector<at::Tensor> Batch::tensors() const {
  std::vector<at::Tensor> all = {tokens, targets};
  if (positions.defined()) all.push_back(positions);
  return all;
}

Batch Batch::first_rows(std::int64_t count) const {
  const auto part = [count](const at::Tensor& of) { return of.defined() ? of.narrow(0, 0, count) : of; };
  return {part(tokens), part(targets), part(positions)};
}

Batch empty_batch(std::int64_t rows, std::int64_t block_size, at::Device device, bool has_positions) {
  const auto options = at::TensorOptions().dtype(at::kLong).device(device);
  const auto empty = [&] { return at::zeros({rows, block_size}, options); };
  return {empty(), empty(), has_positions ? empty() : at::Tensor()};
}

void fill_batch(const Batch& batch, const TokenSequence& sequence, std::span<const Row> rows,
                std::optional<Token> separator) {
  const auto block_size = static_cast<std::uint64_t>(batch.tokens.size(1));
  auto* tokens = batch.tokens.data_ptr<std::int64_t>();
  auto* targets = batch.targets.data_ptr<std::int64_t>();
  auto* positions = separator ? batch.positions.data_ptr<std::int64_t>() : nullptr;
  std::vector<Token> window;
  for (const Row& row : rows) {
    std::uint64_t missing = block_size;
    for (const TokenRange& range : row) {
      window.resize(range.count + 1);
      sequence.read(range.first, window);
      tokens = std::copy(window.begin(), window.end() - 1, tokens);
      targets = std::copy(window.begin() + 1, window.end(), targets);
      missing -= range.count;
      if (!separator) continue;
      for (std::uint64_t i = 0, position = 0; i < range.count; ++i, ++position) {
        if (window[i] == *separator) position = 0;
        *positions++ = static_cast<std::int64_t>(position);
      }
    }
    if (missing == 0) continue;
    tokens = std::fill_n(tokens, missing, std::int64_t{separator.value()});
    targets = std::fill_n(targets, missing, not_scored);
    for (std::uint64_t i = 0; i < missing; ++i) *positions++ = static_cast<std::int64_t>(i);
  }
}

std::vector<Row> training_rows(const TrainingWindows& windows, std::int64_t step, std::int64_t batch_size) {
  std::vector<Row> rows;
  for (std::int64_t row = 0; row < batch_size; ++row) {
    rows.push_back(windows.window(static_cast<std::uint64_t>(step * batch_size + row)));
  }
  return rows;
}

std::uint64_t scored_targets(std::span<const Row> rows) {
  std::uint64_t scored = 0;
  for (const Row& row : rows) {
    for (const TokenRange& range : row) scored += range.count;
  }
  return scored;
}

std::vector<Row> evaluation_rows(std::uint64_t token_count, std::int64_t block_size, std::int64_t count) {
  const auto inputs = static_cast<std::uint64_t>(block_size);
  const std::uint64_t last = token_count - inputs - 1;
  const auto wanted = std::min<std::uint64_t>(static_cast<std::uint64_t>(count), last + 1);
  std::vector<Row> rows;
  for (std::uint64_t i = 0; i < wanted; ++i) rows.push_back({{spread(i, wanted, last), inputs}});
  return rows;
}

std::vector<Row> evaluation_rows(const PackedWindows& windows, std::int64_t count) {
  const std::uint64_t wanted = std::min(static_cast<std::uint64_t>(count), windows.count());
  std::vector<Row> rows;
  for (std::uint64_t i = 0; i < wanted; ++i) {
    const auto pieces = windows.window(spread(i, wanted, windows.count()));
    rows.emplace_back(pieces.begin(), pieces.end());
  }
  return rows;
}

LeafSum LeafSum::first() const {
  return {begin, begin + static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(count() - 1)))};
}

LeafSum LeafSum::second() const { return {first().end, end}; }

std::vector<LeafSum> sums_of_worker(std::int64_t leaves, int worker, int workers) {
  std::vector<LeafSum> sums;
  add_sums({0, leaves}, part_of(leaves, worker, workers), sums);
  return sums;
}

Range leaves_of_rank(std::int64_t leaves, const Ranks& ranks) { return part_of(leaves, ranks.rank(), ranks.count()); }

std::int64_t most_leaves_of_rank(std::int64_t leaves, const Ranks& ranks) {
  return part_of(leaves, 0, ranks.count()).end;
}

int ranks_with_leaves(std::int64_t leaves, int ranks) {
  int count = 0;
  while (count < ranks && part_of(leaves, count, ranks).begin < leaves) ++count;
  return count;
}

std::int64_t gradients_held(std::int64_t leaves, int workers) {
  std::int64_t all = 0;
  for (int worker = 0; worker < workers; ++worker) all += slots_for(sums_of_worker(leaves, worker, workers));
  return all;
}

LeafPasses::LeafPasses(const Config& config, const GptShape& shape, const Runtime& runtime, ParameterArena& arena,
                       std::optional<Token> separator)
    : config_(config),
      ranks_(runtime.ranks),
      arena_(arena),
      separator_(separator),
      blocks_(arena.blocks()),
      own_(leaves_of_rank(config.training.batch_size / config.training.micro_batch_size.value(), runtime.ranks)),
      threads_(runtime.threads) {
  const std::int64_t rows = config.training.micro_batch_size.value(), leaves = own_.end - own_.begin;
  workers_.resize(static_cast<std::size_t>(threads_.count()));
  // In its own thread, so that the memory is where the thread that works in it runs.
  threads_.run([&](int number) {
    Worker& worker = workers_[static_cast<std::size_t>(number)];
    worker.batch = empty_batch(rows, shape.block_size, at::kCPU, separator.has_value());
    worker.dropout_key = at::zeros({2}, at::kLong);
    worker.sums = sums_of_worker(leaves, number, threads_.count());
    worker.slots.resize(static_cast<std::size_t>(std::max<std::int64_t>(slots_for(worker.sums), 1)));
    for (Slot& slot : worker.slots) {
      const bool is_first = number == 0 && &slot == worker.slots.data();
      if (!is_first && !worker.sums.empty()) slot.own = arena.with_own_gradients();
      slot.arena = slot.own ? slot.own.get() : &arena;
      slot.model = make_model(shape, *slot.arena, runtime);
    }
  });
  losses_.resize(static_cast<std::size_t>(config.training.batch_size / rows));
  squares_.resize(blocks_.size());
  if (leaves > 0) plan_additions({0, leaves});
}

// Returns where the sum is, once what is added to the list is done.
float* LeafPasses::plan_additions(const LeafSum& sum) {
  for (const Worker& worker : workers_) {
    const auto found = std::find(worker.sums.begin(), worker.sums.end(), sum);
    if (found == worker.sums.end()) continue;
    return worker.slots[static_cast<std::size_t>(found - worker.sums.begin())].arena->gradients().data_ptr<float>();
  }
  float* const to = plan_additions(sum.first());
  additions_.push_back({to, plan_additions(sum.second())});
  return to;
}

std::span<const Row> LeafPasses::rows_of(std::span<const Row> rows, std::int64_t leaf) const {
  const auto together = static_cast<std::size_t>(config_.training.micro_batch_size.value());
  const std::size_t first = static_cast<std::size_t>(leaf) * together;
  return rows.subspan(first, std::min(together, rows.size() - first));
}

void LeafPasses::pass(Worker& worker, std::int64_t number, Slot& slot) {
  const std::int64_t leaf = own_.begin + number;
  const std::span<const Row> rows = rows_of(batch_, leaf);
  fill_batch(worker.batch, *tokens_, rows, separator_);
  worker.dropout_key.data_ptr<std::int64_t>()[1] = leaf * config_.training.micro_batch_size.value();
  slot.arena->begin_gradients();
  const at::Tensor loss = slot.model->loss(worker.batch.tokens, worker.batch.targets,
                                           {.dropout = config_.model.dropout,
                                            .dropout_key = worker.dropout_key,
                                            .recompute = config_.training.recompute,
                                            .positions = worker.batch.positions});
  const double share = static_cast<double>(scored_targets(rows)) / scored_;
  loss.mul(share).backward();
  slot.arena->collect_gradients();
  slot.arena->zero_unwritten_gradients();
  losses_[static_cast<std::size_t>(leaf)] = static_cast<double>(loss.item<float>()) * share;
}

void LeafPasses::add_up(Worker& worker, const LeafSum& leaves, std::size_t slot) {
  if (leaves.count() == 1) return pass(worker, leaves.begin, worker.slots[slot]);
  add_up(worker, leaves.first(), slot);
  add_up(worker, leaves.second(), slot + 1);
  cpu_kernels().add(worker.slots[slot].arena->gradients().data_ptr<float>(),
                    worker.slots[slot + 1].arena->gradients().data_ptr<float>(), arena_.size());
}

StepSums LeafPasses::accumulate(const TokenSequence& tokens, std::span<const Row> batch, std::uint64_t dropout_key,
                                RankExchange* exchange) {
  tokens_ = &tokens;
  batch_ = batch;
  scored_ = static_cast<double>(scored_targets(batch));
  std::fill(losses_.begin(), losses_.end(), 0.0);
  threads_.run([&](int number) {
    Worker& worker = workers_[static_cast<std::size_t>(number)];
    worker.dropout_key.data_ptr<std::int64_t>()[0] = static_cast<std::int64_t>(dropout_key);
    for (std::size_t i = 0; i < worker.sums.size(); ++i) add_up(worker, worker.sums[i], i);
  });
  if (exchange == nullptr) {
    each_block([&](std::size_t block) { add_workers(block), square(block); });
  } else {
    each_block([&](std::size_t block) { add_workers(block); });
    exchange->add_up(arena_.gradients(), ranks_with_leaves(std::ssize(losses_), ranks_.count()));
    const std::span<const std::size_t> own = exchange->own_blocks();
    std::fill(squares_.begin(), squares_.end(), 0.0);
    threads_.each(std::ssize(own), [&](std::int64_t i, int) { square(own[static_cast<std::size_t>(i)]); });
  }
  return agree(ranks_, losses_, squares_);
}

void LeafPasses::each_block(const std::function<void(std::size_t)>& work) {
  threads_.each(std::ssize(blocks_), [&](std::int64_t block, int) { work(static_cast<std::size_t>(block)); });
}

void LeafPasses::add_workers(std::size_t block) {
  const auto [begin, end] = blocks_[block];
  for (const Addition& addition : additions_)
    cpu_kernels().add(addition.to + begin, addition.from + begin, end - begin);
}

void LeafPasses::square(std::size_t block) {
  const auto [begin, end] = blocks_[block];
  const Backend& backend = workers_[0].slots[0].model->backend();
  squares_[block] = backend.sum_of_squares(arena_.gradients().slice(0, begin, end)).item<double>();
}

StepSums agree(const Ranks& ranks, std::span<const double> losses, std::span<const double> squares) {
  std::vector<double> numbers(losses.begin(), losses.end());
  numbers.insert(numbers.end(), squares.begin(), squares.end());
  const bool stops = ranks.add(numbers, stop_requested());
  const auto begin = numbers.begin(), end_of_losses = begin + std::ssize(losses);
  return {.loss = std::accumulate(begin, end_of_losses, 0.0),
          .norm_squared = at::scalar_tensor(std::accumulate(end_of_losses, numbers.end(), 0.0), at::kDouble).view({1}),
          .stops = stops};
}

void LeafPasses::update(Optimizer& optimizer, const at::Tensor& norm_squared, WeightAverage* average) {
  RECORD_FUNCTION(word_of(optimizer.name()).data(), std::vector<c10::IValue>());
  optimizer.begin_update(norm_squared);
  const std::span<const UpdatePart> parts = optimizer.parts();
  threads_.each(static_cast<std::int64_t>(parts.size()), [&](std::int64_t i, int) {
    const UpdatePart& part = parts[static_cast<std::size_t>(i)];
    part.update(norm_squared);
    if (average != nullptr) average->update(part.range);
  });
}

double LeafPasses::evaluate(const TokenSequence& tokens, std::span<const Row> rows) {
  const at::NoGradGuard no_gradient;
  const std::int64_t together = config_.training.micro_batch_size.value();
  const std::int64_t leaves = (std::ssize(rows) + together - 1) / together;
  const auto [begin, end] = leaves_of_rank(leaves, ranks_);
  std::vector<double> losses(static_cast<std::size_t>(leaves));
  threads_.each(end - begin, [&](std::int64_t i, int number) {
    if (stop_requested()) return;
    const Worker& worker = workers_[static_cast<std::size_t>(number)];
    const std::span<const Row> own = rows_of(rows, begin + i);
    fill_batch(worker.batch, tokens, own, separator_);
    const Batch batch = worker.batch.first_rows(std::ssize(own));
    const at::Tensor loss = worker.slots[0].model->loss(batch.tokens, batch.targets, {.positions = batch.positions});
    losses[static_cast<std::size_t>(begin + i)] =
        static_cast<double>(loss.item<float>()) * static_cast<double>(scored_targets(own));
  });
  const StepSums sums = agree(ranks_, losses, {});
  if (sums.stops) throw Stopped();
  return sums.loss;
}

}  // namespace inkling
