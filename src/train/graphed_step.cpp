#include "train/graphed_step.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cmath>
#include <limits>

#include "ops/dropout.h"
#include "train/trainer.h"

namespace inkling {
namespace {

constexpr int graph_family = 1;
constexpr std::int64_t most_pending = 4096;  // results that wait on the device to be read
constexpr std::size_t slot_count = 4;

}  // namespace

GraphedStep::GraphedStep(const Config& config, const Gpt& model, ParameterArena& arena, AdamW& optimizer)
    : config_(config),
      model_(model),
      arena_(arena),
      optimizer_(optimizer),
      cuda_(*cuda_library(arena.values())),
      batch_(empty_batch(false)),
      slots_(slot_count) {
  const auto options = arena.values().options();
  dropout_key_ = at::zeros({1}, options.dtype(at::kLong));
  loss_ = at::zeros({1}, options);
  evaluated_ = at::zeros({}, options);
  results_ = at::zeros({most_pending, 2}, options);
  const at::Device device = options.device();
  if (device.is_cuda()) copies_ = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
  for (Slot& slot : slots_) {
    slot = {.pinned = empty_batch(true), .device = empty_batch(false), .arrived = {}, .used = {}};
    if (!device.is_cuda()) continue;
    slot.arrived.emplace(device.type());
    slot.used.emplace(device.type());
    slot.used->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  }
  // What is chosen, loaded or allocated at first use must not happen while a graph is recorded. With a gradient that is
  // not finite an update changes nothing.
  const bool accumulates = *config.training.micro_batch_size < config.training.batch_size;
  pass(true);
  if (accumulates) pass(false);
  evaluation_pass();
  arena_.gradients().select(0, 0).fill_(std::numeric_limits<double>::infinity());
  optimizer_.queue_update();
  if (device.is_cuda()) {  // graphs have memory of their own: what was kept for the passes above is given back first
    c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
    c10::getDeviceAllocator(device.type())->emptyCache();
  }
  first_pass_ = cuda_.record(graph_family, [this] { pass(true); });
  if (accumulates) next_pass_ = cuda_.record(graph_family, [this] { pass(false); });
  update_ = cuda_.record(graph_family, [this] { optimizer_.queue_update(); });
  evaluation_ = cuda_.record(graph_family, [this] { evaluation_pass(); });
}

Batch GraphedStep::empty_batch(bool pinned) const {
  const std::vector<std::int64_t> shape = {*config_.training.micro_batch_size, config_.model.block_size};
  const at::Device device = arena_.values().device();
  const auto options = pinned ? at::TensorOptions().dtype(at::kLong).pinned_memory(device.is_cuda())
                              : at::TensorOptions().dtype(at::kLong).device(device);
  return {at::zeros(shape, options), at::zeros(shape, options)};
}

// The gradients of one micro-batch. Everything that differs from step to step is read from tensors.
void GraphedStep::pass(bool first) {
  if (first) {
    arena_.zero_vector_gradients();
    loss_.zero_();
  }
  Context context{.kernels = Kernels::fused,
                  .overwrites = first,
                  .recompute = config_.training.recompute,
                  .dropout = config_.model.dropout,
                  .device_dropout_key = dropout_key_};
  const double share =
      static_cast<double>(*config_.training.micro_batch_size) / static_cast<double>(config_.training.batch_size);
  const at::Tensor loss = model_.loss(batch_.tokens, batch_.targets, context).mul(share);
  loss.backward();
  loss_.add_(loss.detach());
}

void GraphedStep::evaluation_pass() {
  const at::NoGradGuard no_gradient;
  Context context{.kernels = Kernels::fused};
  evaluated_.copy_(model_.loss(batch_.tokens, batch_.targets, context));
}

// What `fill` writes goes into the tensors that the graphs read; the current stream waits for it, the host for nothing
// but the next slot.
void GraphedStep::load(const std::function<void(const Batch&)>& fill) {
  Slot& slot = slots_[next_slot_++ % slots_.size()];
  if (slot.arrived) slot.arrived->synchronize();  // of slot_count batches ago: the host does not run further ahead
  fill(slot.pinned);
  const auto copy = [](const Batch& from, const Batch& to) {
    to.tokens.copy_(from.tokens, true);
    to.targets.copy_(from.targets, true);
  };
  if (!copies_) {
    copy(slot.pinned, slot.device);
    copy(slot.device, batch_);
    return;
  }
  const c10::Stream current = c10::impl::VirtualGuardImpl(copies_->device_type()).getStream(copies_->device());
  slot.used->block(*copies_);
  {
    const c10::StreamGuard on_copies(*copies_);
    copy(slot.pinned, slot.device);
    slot.arrived->record(*copies_);
  }
  slot.arrived->block(current);
  copy(slot.device, batch_);
  slot.used->record(current);
}

void GraphedStep::queue(std::int64_t step, double learning_rate, const TokenSequence& tokens,
                        const WindowOrder& order) {
  const TrainingConfig& training = config_.training;
  for (std::int64_t first = 0; first < training.batch_size; first += *training.micro_batch_size) {
    load([&](const Batch& batch) { fill_training_batch(batch, tokens, order, step, training.batch_size, first); });
    const Context context{.dropout = config_.model.dropout, .dropout_key = dropout_key(training.seed, step, first)};
    dropout_key_.fill_(static_cast<std::int64_t>(context.dropout_key));
    seed_dropout(arena_.values().device(), context);
    (first == 0 ? first_pass_ : next_pass_)();
  }
  optimizer_.set_learning_rate(learning_rate);
  update_();
  const at::Tensor result = results_.select(0, static_cast<std::int64_t>(learning_rates_.size()));
  result.select(0, 0).copy_(loss_.select(0, 0));
  result.select(0, 1).copy_(optimizer_.norm_squared().select(0, 0));
  learning_rates_.push_back(learning_rate);
  if (static_cast<std::int64_t>(learning_rates_.size()) == most_pending) {
    for (const StepResult& one : results()) pending_.push_back(one);
  }
}

void GraphedStep::add_losses(const TokenSequence& tokens, const std::vector<std::uint64_t>& starts,
                             const at::Tensor& total) {
  load([&](const Batch& batch) {
    const Batch read = read_batch(tokens, starts, config_.model.block_size, at::kCPU);
    batch.tokens.copy_(read.tokens);
    batch.targets.copy_(read.targets);
  });
  evaluation_();
  total.add_(evaluated_.to(at::kDouble), static_cast<std::int64_t>(starts.size()));
}

std::vector<StepResult> GraphedStep::results() {
  std::vector<StepResult> all = std::move(pending_);
  pending_.clear();
  const at::Tensor numbers = results_.slice(0, 0, static_cast<std::int64_t>(learning_rates_.size())).to(at::kCPU);
  for (std::size_t i = 0; i < learning_rates_.size(); ++i) {
    const float* const row = numbers.data_ptr<float>() + 2 * i;
    const double norm = std::sqrt(static_cast<double>(row[1]));
    all.push_back({.loss = static_cast<double>(row[0]),
                   .learning_rate = learning_rates_[i],
                   .grad_norm = norm,
                   .skipped = !std::isfinite(norm)});
  }
  learning_rates_.clear();
  return all;
}

}  // namespace inkling
