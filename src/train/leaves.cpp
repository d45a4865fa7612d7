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
  for (std::uint64_t i = 0; i < wanted; ++i) {
    // last * i / wanted, in two parts so that no product overflows
    rows.push_back({{last / wanted * i + last % wanted * i / wanted, inputs}});
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

std::int64_t gradients_held(std::int64_t leaves, int workers) {
  std::int64_t all = 0;
  for (int worker = 0; worker < workers; ++worker) all += slots_for(sums_of_worker(leaves, worker, workers));
  return all;
}

LeafPasses::LeafPasses(const Config& config, const GptShape& shape, const Runtime& runtime, ParameterArena& arena,
                       std::optional<Token> separator)
    : config_(config), arena_(arena), separator_(separator), threads_(runtime.threads) {
  const std::int64_t rows = config.training.micro_batch_size.value(), leaves = config.training.batch_size / rows;
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
  losses_.resize(static_cast<std::size_t>(leaves));
  squares_.resize(static_cast<std::size_t>((arena.size() + elements_of_block - 1) / elements_of_block));
  plan_additions({0, leaves});
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

void LeafPasses::pass(Worker& worker, std::int64_t leaf, Slot& slot) {
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

LeafPasses::Sums LeafPasses::accumulate(const TokenSequence& tokens, std::span<const Row> batch,
                                        std::uint64_t dropout_key) {
  tokens_ = &tokens;
  batch_ = batch;
  scored_ = static_cast<double>(scored_targets(batch));
  threads_.run([&](int number) {
    Worker& worker = workers_[static_cast<std::size_t>(number)];
    worker.dropout_key.data_ptr<std::int64_t>()[0] = static_cast<std::int64_t>(dropout_key);
    for (std::size_t i = 0; i < worker.sums.size(); ++i) add_up(worker, worker.sums[i], i);
  });
  return {.loss = std::accumulate(losses_.begin(), losses_.end(), 0.0), .norm_squared = reduce()};
}

// Adds the workers' sums up block by block, and the squares while a block is in the cache.
at::Tensor LeafPasses::reduce() {
  const Backend& backend = workers_[0].slots[0].model->backend();
  const at::Tensor gradients = arena_.gradients();
  threads_.each(static_cast<std::int64_t>(squares_.size()), [&](std::int64_t block, int) {
    const std::int64_t begin = block * elements_of_block, count = std::min(elements_of_block, arena_.size() - begin);
    for (const Addition& addition : additions_) cpu_kernels().add(addition.to + begin, addition.from + begin, count);
    squares_[static_cast<std::size_t>(block)] =
        backend.sum_of_squares(gradients.narrow(0, begin, count)).item<double>();
  });
  const double total = std::accumulate(squares_.begin(), squares_.end(), 0.0);
  return at::scalar_tensor(total, at::kDouble).view({1});
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
  const std::int64_t leaves = (static_cast<std::int64_t>(rows.size()) + together - 1) / together;
  std::vector<double> losses(static_cast<std::size_t>(leaves));
  threads_.each(leaves, [&](std::int64_t leaf, int number) {
    leave_if_stopped();
    const Worker& worker = workers_[static_cast<std::size_t>(number)];
    const std::span<const Row> own = rows_of(rows, leaf);
    fill_batch(worker.batch, tokens, own, separator_);
    const Batch batch = worker.batch.first_rows(static_cast<std::int64_t>(own.size()));
    const at::Tensor loss = worker.slots[0].model->loss(batch.tokens, batch.targets, {.positions = batch.positions});
    losses[static_cast<std::size_t>(leaf)] = static_cast<double>(loss.item<float>()) * static_cast<double>(own.size());
  });
  return std::accumulate(losses.begin(), losses.end(), 0.0);
}

}  // namespace inkling
