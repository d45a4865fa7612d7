#include "train/trainer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "backend/backend.h"
#include "backend/choose.h"
#include "base/random.h"
#include "base/stop_signals.h"
#include "optim/optimizer.h"
#include "runtime/device.h"

namespace inkling {

namespace {

constexpr int recorded_family = 1;
constexpr std::int64_t max_pending = 4096;  // results that wait on the device to be read

at::Tensor zeros_on(const ParameterArena& arena, at::IntArrayRef shape, at::ScalarType dtype) {
  return at::zeros(shape, arena.gradients().options().dtype(dtype));
}

// On a GPU cuBLAS works in 32 MiB of its own for each thread, taken when that thread first multiplies. The thread that
// computes backwards would take them from where the logits were, and nothing as large as logits fits there again.
void multiply_in_both_threads(at::Device device) {
  const at::Tensor one = at::ones({1, 1}, device).set_requires_grad(true);
  at::mm(one, one).sum().backward();
}

}  // namespace

namespace {

std::optional<RankExchange> exchange_of(const OptimizerConfig& optimizer, const ParameterLayout& layout,
                                        const Runtime& runtime) {
  if (runtime.ranks.is_alone()) return std::nullopt;
  return RankExchange(runtime.ranks, layout, divide_update(optimizer, layout, runtime.ranks.count()),
                      !computes_with_threads(runtime.device));
}

// Whether threads share out the batch; on a GPU the same split means that micro-batches are added up in the same tree.
bool has_workers(const Runtime& runtime) {
  return runtime.split == WorkSplit::batch && computes_with_threads(runtime.device);
}

// Whether the bits are those of any number of ranks: micro-batches added up in the tree, squares block by block, and
// each matrix multiplied by itself.
bool adds_in_order(const Runtime& runtime) {
  return !runtime.ranks.is_alone() || (runtime.split == WorkSplit::batch && !has_workers(runtime));
}

UpdateCut update_cut(const Runtime& runtime) {
  if (has_workers(runtime)) return UpdateCut::by_blocks;
  return adds_in_order(runtime) ? UpdateCut::by_matrices : UpdateCut::few;
}

Range rows_of_rank(const TrainingConfig& training, const Ranks& ranks) {
  const std::int64_t together = training.micro_batch_size.value();
  const auto [begin, end] = leaves_of_rank(training.batch_size / together, ranks);
  return {begin * together, end * together};
}

}  // namespace

std::uint64_t dropout_key(std::uint64_t seed, std::int64_t step, std::int64_t first) {
  const std::uint64_t of_step = random_key(seed, Purpose::dropout, static_cast<std::uint64_t>(step));
  return random_bits(of_step, static_cast<std::uint64_t>(first));
}

Trainer::Trainer(const Config& config, const GptShape& shape, const Runtime& runtime, std::optional<Token> separator)
    : config_(config),
      ranks_(runtime.ranks),
      own_(rows_of_rank(config.training, runtime.ranks)),
      exchange_(exchange_of(config.optimizer, ParameterLayout(gpt_parameters(shape)), runtime)),
      is_sharded_(exchange_ && config.ranks.shard_optimizer),
      arena_(make_arena(shape, runtime, Use::training, is_sharded_ ? std::optional(exchange_->owned()) : std::nullopt)),
      model_(make_model(shape, *arena_, runtime)),
      optimizer_(*arena_, config.optimizer, model_->backend(), update_cut(runtime),
                 is_sharded_ ? std::optional(exchange_->owned()) : std::nullopt),
      separator_(separator),
      batch_(empty_batch(config.training.micro_batch_size.value(), shape.block_size, runtime.device,
                         separator.has_value())),
      upload_(batch_.tensors()),
      dropout_key_(zeros_on(*arena_, {2}, at::kLong)),
      share_(zeros_on(*arena_, {}, at::kDouble)),
      loss_(zeros_on(*arena_, {1}, at::kDouble)),
      evaluated_(zeros_on(*arena_, {}, at::kFloat)),
      adds_in_order_(adds_in_order(runtime)),
      blocks_(arena_->blocks()),
      results_(zeros_on(*arena_, {max_pending, 2}, at::kDouble)),
      first_pass_(model_->backend(), recorded_family, [this] { pass(true); }),
      next_pass_(model_->backend(), recorded_family, [this] { pass(false); }),
      update_(model_->backend(), recorded_family, [this] { apply_gradients(); }),
      evaluation_(model_->backend(), recorded_family, [this] { evaluate_batch(); }) {
  if (!computes_with_threads(runtime.device) && multiplies_by_libtorch(shape, runtime, separator.has_value())) {
    multiply_in_both_threads(runtime.device);
  }
  if (config.training.ema > 0) {
    average_.emplace(*arena_, config.training.ema, is_sharded_ ? std::optional(exchange_->owned()) : std::nullopt);
  }
  const std::int64_t together = config.training.micro_batch_size.value();
  if (adds_in_order_ && !has_workers(runtime)) {
    norm_squared_ = model_->backend().sum_of_squares(arena_->gradients());
    losses_ = zeros_on(*arena_, {config.training.batch_size / together}, at::kDouble);
    squares_ = zeros_on(*arena_, {std::ssize(blocks_)}, at::kDouble);
  }
  if (exchange_) {
    const at::Tensor is_own = at::zeros({std::ssize(blocks_)}, at::kBool);
    for (const std::size_t block : exchange_->own_blocks()) is_own[static_cast<std::int64_t>(block)].fill_(true);
    is_own_block_ = is_own.to(runtime.device);
  }
  if (runtime.split == WorkSplit::batch && !has_workers(runtime)) {
    for (auto more = gradients_held((own_.end - own_.begin) / together, 1) - 1; more > 0; --more) {
      sums_.push_back(at::empty_like(arena_->gradients()));
    }
  }
  if (has_workers(runtime)) {
    leaves_ = std::make_unique<LeafPasses>(config_, shape, runtime, *arena_, separator);
  }
  // Takes memory for evaluations now, rather than later beside that of the recordings, and leaves none of it in pieces
  // that a step's tensors would fill with gaps between them.
  if (model_->backend().record != nullptr) {
    evaluation_();
    give_back_memory(runtime.device);
  }
}

void Trainer::load(const TokenSequence& tokens, std::span<const Row> rows) {
  upload_([&](const Upload::Tensors& batch) {
    fill_batch({batch[0], batch[1], separator_ ? batch[2] : at::Tensor()}, tokens, rows, separator_);
  });
}

void Trainer::pass(bool first) {
  if (first) {
    arena_->begin_gradients();
    loss_.zero_();
  }
  const at::Tensor loss = model_->loss(batch_.tokens, batch_.targets,
                                       {.dropout = config_.model.dropout,
                                        .dropout_key = dropout_key_,
                                        .recompute = config_.training.recompute,
                                        .positions = batch_.positions});
  loss.mul(share_).backward();
  arena_->collect_gradients();
  loss_.add_(loss.detach().to(at::kDouble).mul(share_));  // float32 ends here: several are added up
}

void Trainer::accumulate(const TokenSequence& tokens, std::span<const Row> rows, double share, std::int64_t step,
                         std::int64_t first) {
  load(tokens, rows);
  share_.fill_(share);
  if (config_.model.dropout > 0) {
    const std::uint64_t seed = config_.training.seed;
    dropout_key_.select(0, 0).fill_(static_cast<std::int64_t>(dropout_key(seed, step)));
    dropout_key_.select(0, 1).fill_(first);
    seed_generator(dropout_key_.device(), dropout_key(seed, step, first));
  }
  const bool begins = first == own_.begin || !sums_.empty();
  (begins ? first_pass_ : next_pass_)();
}

// Behind the pass of a rank's leaf number `number`: adds its gradients to those sums that are complete with them, and
// keeps the sum unless it is that of all.
void Trainer::add_leaf(std::int64_t number, std::int64_t leaves) {
  arena_->zero_unwritten_gradients();
  const at::Tensor gradients = arena_->gradients();
  const bool is_last = number + 1 == leaves;
  for (std::size_t level = 0; level < sums_.size(); ++level) {
    const bool is_there = (number >> level & 1) != 0;
    if (is_there) gradients.add_(sums_[level]);
    if (is_there || is_last) continue;
    sums_[level].copy_(gradients);
    return;
  }
}

void Trainer::square_gradients(const at::Tensor& squares) const {
  const at::Tensor gradients = arena_->gradients();
  square_blocks([&](const ParameterRange& part) { return gradients.slice(0, part.begin, part.end); }, blocks_, squares);
}

void Trainer::reduce() {
  arena_->zero_unwritten_gradients();
  if (!adds_in_order_) return;
  if (exchange_) {
    exchange_->add_up(arena_->gradients(), ranks_with_leaves(losses_.numel(), ranks_.count()));
  }
  square_gradients(squares_);
  if (exchange_) {
    squares_.copy_(at::where(is_own_block_, squares_, 0.0));
    ranks_.add(squares_);
    ranks_.add(losses_);
  }
  norm_squared_.copy_(squares_.sum());
  loss_.copy_(losses_.sum());
  stops_ = agree(ranks_, {}, {}).stops;
}

void Trainer::complete_gradients() {
  if (is_sharded_) exchange_->hand_round(arena_->gradients());
}

OptimizerStates Trainer::whole_optimizer() const {
  OptimizerStates states(optimizer_);
  if (!is_sharded_) return states;
  states.gather = [this](const OptimizerState& state) {
    const Parameter& parameter = arena_->parameter(state.parameter);
    std::vector<at::Tensor> mine = {at::empty({0}, arena_->gradients().options())};
    for (const OptimizerState::Kept& kept : state.kept) mine.push_back(kept.values);
    const at::Tensor all = exchange_->collect(at::cat(mine), {parameter.offset, parameter.offset + parameter.count});
    return all.defined() ? all.view(state.shape) : all;
  };
  return states;
}

at::Tensor Trainer::whole_average() const {
  if (!average_) return {};
  return is_sharded_ ? exchange_->collect(average_->values(), {0, arena_->size()}) : average_->values();
}

void Trainer::exchange_average() {
  arena_->give_up_values();
  average_->exchange();
  if (is_sharded_) exchange_->hand_round(arena_->compute_values());
}

void Trainer::complete_weights() {
  if (arena_->keeps_all()) return;
  at::Tensor values = exchange_->collect(arena_->kept_values(), {0, arena_->size()});
  if (values.defined()) arena_->set_values(std::move(values));
}

void Trainer::apply_gradients() {
  optimizer_.update(norm_squared_);
  if (average_) average_->update();
}

void Trainer::note_result(double learning_rate) {
  const at::Tensor result = results_.select(0, static_cast<std::int64_t>(learning_rates_.size()));
  result.select(0, 0).copy_(loss_.select(0, 0));
  result.select(0, 1).copy_(optimizer_.norm_squared().select(0, 0));
  learning_rates_.push_back(learning_rate);
  if (static_cast<std::int64_t>(learning_rates_.size()) == max_pending) read_ = results();
}

void Trainer::rehearse() {
  const bool has_several = config_.training.batch_size > config_.training.micro_batch_size.value();
  for (int time = 0; time < 2; ++time) {  // RecordedWork records at the second
    first_pass_();
    if (has_several) next_pass_();
  }
  evaluation_();  // whose first time was in the constructor
  if (squares_.defined()) square_gradients(squares_);
  if (exchange_) exchange_->rehearse(arena_->gradients().options());
  synchronize(arena_->gradients().device());
}

void Trainer::step(std::int64_t step, const TrainingWindows& windows) {
  arena_->give_up_values();
  const TrainingConfig& training = config_.training;
  const std::vector<Row> batch = training_rows(windows, step, training.batch_size);
  const double rate = learning_rate(step, config_.optimizer, config_.schedule, training.max_steps);
  at::Tensor norm_squared;
  if (leaves_) {
    const StepSums sums = leaves_->accumulate(windows.tokens(), batch, dropout_key(training.seed, step),
                                              exchange_ ? &*exchange_ : nullptr);
    loss_.fill_(sums.loss);
    stops_ = sums.stops;
    norm_squared = sums.norm_squared;
  } else {
    accumulate_leaves(windows.tokens(), batch, step);
    reduce();
  }
  if (exchange_ && !is_sharded_) exchange_->hand_round(arena_->gradients());
  optimizer_.set_learning_rate(rate);
  if (leaves_) {
    leaves_->update(optimizer_, norm_squared, average());
  } else {
    update_();
  }
  if (is_sharded_) exchange_->hand_round(arena_->compute_values());
  note_result(rate);
}

void Trainer::accumulate_leaves(const TokenSequence& tokens, std::span<const Row> batch, std::int64_t step) {
  const std::int64_t together = config_.training.micro_batch_size.value();
  const auto scored = static_cast<double>(scored_targets(batch));
  if (adds_in_order_) losses_.zero_();
  for (std::int64_t first = own_.begin; first < own_.end; first += together) {
    const auto rows = std::span(batch).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(together));
    accumulate(tokens, rows, static_cast<double>(scored_targets(rows)) / scored, step, first);
    if (!sums_.empty()) add_leaf((first - own_.begin) / together, (own_.end - own_.begin) / together);
    // Where gradients are added to those before, so is the loss.
    const std::int64_t leaf = (sums_.empty() ? own_.begin : first) / together;
    if (adds_in_order_) losses_.select(0, leaf).copy_(loss_.select(0, 0));
  }
}

std::vector<StepResult> Trainer::results() {
  std::vector<StepResult> all = std::exchange(read_, {});
  const at::Tensor numbers = results_.slice(0, 0, static_cast<std::int64_t>(learning_rates_.size())).to(at::kCPU);
  for (std::size_t i = 0; i < learning_rates_.size(); ++i) {
    const double* const row = numbers.data_ptr<double>() + 2 * i;
    const double norm = std::sqrt(row[1]);
    all.push_back(
        {.loss = row[0], .learning_rate = learning_rates_[i], .grad_norm = norm, .skipped = !std::isfinite(norm)});
  }
  learning_rates_.clear();
  return all;
}

std::vector<GroupNorms> Trainer::norms() const {
  const at::Tensor squares = zeros_on(*arena_, {2, std::ssize(blocks_)}, at::kDouble);  // of gradients, and of weights
  square_gradients(squares[0]);
  square_blocks([&](const ParameterRange& part) { return arena_->master_within(part); }, blocks_, squares[1]);
  if (is_sharded_) {
    squares.copy_(at::where(is_own_block_, squares, 0.0));
    ranks_.add(squares.flatten());
  }
  const at::Tensor numbers = squares.to(at::kCPU);
  const auto norm = [&](std::int64_t row, const ParameterRange& group) {
    const double* const of_blocks = numbers.const_data_ptr<double>() + row * std::ssize(blocks_);
    double sum = 0;
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      if (group.begin <= blocks_[i].begin && blocks_[i].begin < group.end) sum += of_blocks[i];
    }
    return std::sqrt(sum);
  };
  std::vector<GroupNorms> all;
  for (const ParameterGroup group : all_parameter_groups) {
    const ParameterRange range = arena_->range(group);
    if (range.count() == 0) continue;
    all.push_back({.name = group_name(group), .gradient = norm(0, range), .weights = norm(1, range)});
  }
  return all;
}

void Trainer::evaluate_batch() {
  const at::NoGradGuard no_gradient;
  evaluated_.copy_(loss_of(batch_));
}

at::Tensor Trainer::loss_of(const Batch& batch) const {
  return model_->loss(batch.tokens, batch.targets, {.positions = batch.positions});
}

double Trainer::estimate_loss(const TokenSequence& tokens, const PackedWindows* packed) {
  const at::NoGradGuard no_gradient;
  const auto rows = static_cast<std::size_t>(config_.training.micro_batch_size.value());
  const std::int64_t most = config_.evaluation.batches * config_.training.batch_size;
  const std::vector<Row> all = packed != nullptr ? evaluation_rows(*packed, most)
                                                 : evaluation_rows(tokens.count(), config_.model.block_size, most);
  const auto scored = static_cast<double>(scored_targets(all));
  if (leaves_) return leaves_->evaluate(tokens, all) / scored;
  // Where the model is, so that a GPU is waited for once.
  const auto batches = static_cast<std::int64_t>((all.size() + rows - 1) / rows);
  const at::Tensor totals = zeros_on(*arena_, {batches}, at::kDouble);
  const auto [begin, end] = leaves_of_rank(batches, ranks_);
  for (std::int64_t batch = begin; batch < end && !stop_requested(); ++batch) {
    const std::size_t first = static_cast<std::size_t>(batch) * rows;
    const auto windows = std::span(all).subspan(first, std::min(rows, all.size() - first));
    load(tokens, windows);
    if (windows.size() == rows) {
      evaluation_();
    } else {
      evaluated_.copy_(loss_of(batch_.first_rows(std::ssize(windows))));
    }
    totals.select(0, batch).add_(evaluated_.to(at::kDouble), static_cast<double>(scored_targets(windows)));
  }
  if (agree(ranks_, {}, {}).stops) throw Stopped();
  if (exchange_) ranks_.add(totals);
  return totals.sum().item<double>() / scored;
}

}  // namespace inkling
