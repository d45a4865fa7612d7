// One training step: the gradients of all micro-batches, clipping, AdamW.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backend/repeated.h"
#include "config/config.h"
#include "data/windows.h"
#include "formats/token_file.h"
#include "model/model.h"
#include "optim/optimizer.h"
#include "runtime/transfer.h"
#include "train/batches.h"

namespace inkling {

// What is known of a step when it is done.
struct StepResult {
  double loss = 0;  // nats per token, mean over the whole batch, before the update
  double learning_rate = 0;
  double grad_norm = 0;  // before clipping
  bool skipped = false;  // the gradient was not finite: weights and moments are as they were
};

// The dropout numbers of the micro-batch that begins with row `first` of step `step` are drawn from this.
std::uint64_t dropout_key(std::uint64_t seed, std::int64_t step, std::int64_t first);

// Owns what training changes: the arena and the moments.
class Trainer {
 public:
  // config.training.micro_batch_size must be a number.
  Trainer(const Config& config, const GptShape& shape, const Runtime& runtime);

  // Step number `step` (from 0) on rows of `tokens` that `order` names: a function of (seed, step, weights, moments,
  // data) and nothing else. Where the backend queues it is recorded by the second step, and only queued from then on.
  void step(std::int64_t step, const TokenSequence& tokens, const WindowOrder& order);

  // Whether steps are only queued, so that asking for results means waiting.
  bool runs_ahead() const { return model_->backend().queues; }

  // Of the steps since the last call, in order. Waits for a GPU.
  std::vector<StepResult> results();

  // Mean loss in nats per token over `batches` batches of fixed windows, without dropout. Disturbs nothing.
  double estimate_loss(const TokenSequence& tokens);

  ParameterArena& arena() { return *arena_; }
  Optimizer& optimizer() { return optimizer_; }
  const Model& model() const { return *model_; }

 private:
  // The three parts of a step. Each runs work that reads everything that differs from step to step from tensors.
  void accumulate(const std::function<void(const Batch&)>& fill, std::uint64_t key, bool first);
  void reduce();  // several ranks would add up their gradients here
  void update(double learning_rate);

  void pass(bool first);
  void evaluate_batch();
  void load(const std::function<void(const Batch&)>& fill);

  Config config_;
  std::unique_ptr<ParameterArena> arena_;
  std::unique_ptr<Model> model_;
  Optimizer optimizer_;

  Batch batch_;                         // what a pass reads
  Upload upload_;                       // to there
  at::Tensor dropout_key_;              // int64 [1]
  at::Tensor loss_;                     // float64 [1], of the step so far
  at::Tensor evaluated_;                // float32 [], of the last batch that was evaluated
  at::Tensor results_;                  // float64 [pending steps, 2]: loss, squared norm
  std::vector<double> learning_rates_;  // of these steps
  std::vector<StepResult> read_;        // read already, but not asked for
  Repeated first_pass_, next_pass_, update_, evaluation_;
};

}  // namespace inkling
