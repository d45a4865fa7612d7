#include "train/trainer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/random.h"
#include "ops/dropout.h"
#include "optim/schedule.h"
#include "train/batches.h"

namespace inkling {

GptShape shape_from(const ModelConfig& model, std::uint64_t vocab_size) {
  return {.n_layer = model.n_layer,
          .n_head = model.n_head,
          .n_embd = model.n_embd,
          .block_size = model.block_size,
          .vocab_size = static_cast<std::int64_t>(vocab_size),
          .bias = model.bias,
          .gelu = model.gelu};
}

std::uint64_t dropout_key(std::uint64_t seed, std::int64_t step, std::int64_t first) {
  const std::uint64_t of_step = random_key(seed, Purpose::dropout, static_cast<std::uint64_t>(step));
  return random_bits(of_step, static_cast<std::uint64_t>(first));
}

Trainer::Trainer(const Config& config, const GptShape& shape, const Runtime& runtime)
    : config_(config),
      runtime_(runtime),
      arena_(gpt_parameters(shape), runtime.device, runtime.dtype,
             runtime.kernels == Kernels::fused ? Gradients::in_float32 : Gradients::as_weights),
      model_(shape, arena_),
      optimizer_(arena_, config.optimizer, runtime.kernels) {}

double Trainer::micro_batch(std::int64_t step, std::int64_t first, const TokenSequence& tokens,
                            const WindowOrder& order) {
  const TrainingConfig& training = config_.training;
  const Batch batch = training_batch(tokens, order, step, training.batch_size, first, *training.micro_batch_size,
                                     config_.model.block_size, runtime_.device);
  const bool overwrites = first == 0 && runtime_.kernels == Kernels::fused;
  if (overwrites) arena_.zero_vector_gradients();
  if (first == 0 && !overwrites) arena_.zero_gradients();
  Context context{.kernels = runtime_.kernels,
                  .overwrites = overwrites,
                  .recompute = training.recompute,
                  .dropout = config_.model.dropout,
                  .dropout_key = dropout_key(training.seed, step, first)};
  seed_dropout(runtime_.device, context);
  const at::Tensor loss = model_.loss(batch.tokens, batch.targets, context);
  const double share = static_cast<double>(*training.micro_batch_size) / static_cast<double>(training.batch_size);
  (share == 1.0 ? loss : loss.mul(share)).backward();
  arena_.collect_gradients();
  return loss.item<double>() * share;
}

void Trainer::step(std::int64_t step, const TokenSequence& tokens, const WindowOrder& order) {
  const double rate = learning_rate(step, config_.optimizer, config_.schedule, config_.training.max_steps);
  if (runtime_.kernels == Kernels::fused && cuda_library(arena_.values())) {
    if (!graphed_) graphed_ = std::make_unique<GraphedStep>(config_, model_, arena_, optimizer_);
    graphed_->queue(step, rate, tokens, order);
    return;
  }
  StepResult result{.learning_rate = rate};
  for (std::int64_t first = 0; first < config_.training.batch_size; first += *config_.training.micro_batch_size) {
    result.loss += micro_batch(step, first, tokens, order);
  }
  result.grad_norm = optimizer_.step(rate);
  result.skipped = !std::isfinite(result.grad_norm);
  results_.push_back(result);
}

std::vector<StepResult> Trainer::results() { return graphed_ ? graphed_->results() : std::exchange(results_, {}); }

double Trainer::estimate_loss(const TokenSequence& tokens) const {
  const at::NoGradGuard no_grad;
  const std::int64_t rows = *config_.training.micro_batch_size;
  const auto starts = evaluation_windows(tokens.count(), config_.model.block_size,
                                         config_.evaluation.batches * config_.training.batch_size);
  const auto float64 = at::TensorOptions().dtype(at::kDouble).device(runtime_.device);
  const at::Tensor total = at::zeros({}, float64);  // where the model is: a GPU is waited for once
  for (std::size_t first = 0; first < starts.size(); first += static_cast<std::size_t>(rows)) {
    const std::size_t end = std::min(starts.size(), first + static_cast<std::size_t>(rows));
    const std::vector<std::uint64_t> windows(starts.begin() + static_cast<std::ptrdiff_t>(first),
                                             starts.begin() + static_cast<std::ptrdiff_t>(end));
    if (graphed_ && static_cast<std::int64_t>(windows.size()) == rows) {
      graphed_->add_losses(tokens, windows, total);
      continue;
    }
    const Batch batch = read_batch(tokens, windows, config_.model.block_size, runtime_.device);
    Context context{.kernels = runtime_.kernels};
    const at::Tensor loss = model_.loss(batch.tokens, batch.targets, context);
    total.add_(loss.to(at::kDouble), static_cast<std::int64_t>(windows.size()));
  }
  return total.item<double>() / static_cast<double>(starts.size());
}

}  // namespace inkling
