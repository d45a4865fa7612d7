// One training step: its batch, the gradients of all micro-batches, clipping, the optimizer, and the average of the
// weights.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "backend/recorded_work.h"
#include "config/config.h"
#include "data/windows.h"
#include "formats/token_file.h"
#include "model/model.h"
#include "optim/optimizer.h"
#include "optim/weight_average.h"
#include "runtime/transfer.h"
#include "train/exchange.h"
#include "train/leaves.h"

namespace inkling {

// What is known of a step when it is done.
struct StepResult {
  double loss = 0;  // nats per token, mean over the whole batch, before the update
  double learning_rate = 0;
  double grad_norm = 0;  // before clipping
  bool skipped = false;  // the gradient was not finite: weights and moments are as they were
};

// The Euclidean norms of a group of parameters.
struct GroupNorms {
  std::string_view name;             // "matrix"
  double gradient = 0, weights = 0;  // the gradient's before clipping
};

// Returns the key of the dropout numbers of step `step`; and that of a micro-batch, from its first row, for numbers
// that LibTorch's own generator draws.
std::uint64_t dropout_key(std::uint64_t seed, std::int64_t step, std::int64_t first = 0);

// Owns what training changes: the arena, what the optimizer keeps, and the average.
class Trainer {
 public:
  // config.training.micro_batch_size must be a number. separator: what documents begin with that are kept apart, in
  // training and in evaluations; none: each window is one text.
  Trainer(const Config& config, const GptShape& shape, const Runtime& runtime, std::optional<Token> separator = {});
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // Makes step number `step` (from 0): a function of (seed, step, weights, moments, data) alone. The loss is the mean
  // over all targets of the batch that are scored, whatever the micro-batches. Where the backend records, the second
  // step records the work, and later ones queue it again.
  void step(std::int64_t step, const TrainingWindows& windows);

  // Makes the passes of a step and of an evaluation, of zeros, until they are recorded where the backend queues, so
  // that they have the memory that they will take. Call it while nothing counts that a step changes but the weights and
  // the optimizer's memory, which stay. Throws what lack of memory throws.
  void rehearse();

  // Whether a stop was requested in any rank before the last step was complete.
  bool stops() const { return stops_; }

  // Where ranks share the update, which all of them call: makes the gradients of every rank whole, and the arena's
  // values in rank 0, on the CPU where each keeps its own, until the next step.
  void complete_gradients();
  void complete_weights();
  // The weights and their average change places, in all ranks.
  void exchange_average();
  // What a checkpoint keeps beside the weights. The states are gathered as they are written, and refer to the trainer;
  // the average is, in rank 0, when all ranks call it.
  OptimizerStates whole_optimizer() const;
  at::Tensor whole_average() const;  // [arena]; undefined without training.ema

  // Whether steps are only queued, so that asking for results means waiting.
  bool runs_ahead() const { return model_->backend().queues; }

  // Returns the results of the steps since the last call, in order. Waits for a GPU.
  std::vector<StepResult> results();

  // Returns the mean loss in nats per token over evaluation.batches batches of fixed windows, without dropout: of
  // `packed`, where that is not null. Changes nothing that training reads. Throws Stopped (base/stop_signals.h) in
  // front of a batch, once a stop was requested.
  double estimate_loss(const TokenSequence& tokens, const PackedWindows* packed = nullptr);

  // Returns the norms of the groups that the model has, after the last step, when all ranks call it. Two passes over
  // the arena, and waits for a GPU; a step costs nothing more.
  std::vector<GroupNorms> norms() const;

  ParameterArena& arena() { return *arena_; }
  Optimizer& optimizer() { return optimizer_; }
  WeightAverage* average() { return average_ ? &*average_ : nullptr; }  // null without training.ema
  const ParameterArena& arena() const { return *arena_; }
  const Model& model() const { return *model_; }

 private:
  // The three parts of a step: add up gradients, complete them, apply them. The work of the first and the last reads
  // all that differs from step to step from tensors, so that it can be recorded.
  void accumulate(const TokenSequence& tokens, std::span<const Row> rows, double share, std::int64_t step,
                  std::int64_t first);
  // Completes the gradients: sets those to zero that nobody wrote, and adds up those of all ranks.
  void reduce();
  void square_gradients(const at::Tensor& squares) const;  // float64 [blocks]
  void note_result(double learning_rate);

  void accumulate_leaves(const TokenSequence& tokens, std::span<const Row> batch, std::int64_t step);  // of this rank
  void add_leaf(std::int64_t number, std::int64_t leaves);
  void pass(bool first);  // forward and backward; `first` of the step
  void apply_gradients();
  void evaluate_batch();
  void load(const TokenSequence& tokens, std::span<const Row> rows);  // into batch_
  at::Tensor loss_of(const Batch& batch) const;                       // without dropout

  Config config_;
  const Ranks ranks_;
  const Range own_;                       // rows of a batch
  std::optional<RankExchange> exchange_;  // none where there are no other ranks
  const bool is_sharded_;                 // whether each updates a part
  std::unique_ptr<ParameterArena> arena_;
  std::unique_ptr<Model> model_;
  Optimizer optimizer_;
  std::optional<WeightAverage> average_;
  std::optional<Token> separator_;

  Batch batch_;             // what a pass reads
  Upload upload_;           // fills batch_
  at::Tensor dropout_key_;  // int64 [2]: DropoutPlace::key
  at::Tensor share_;        // float64 []: of the step's scored targets, that which the pass has
  at::Tensor loss_;         // float64 [1], of the step so far
  at::Tensor evaluated_;    // float32 [], of the last batch that was evaluated
  const bool adds_in_order_;
  const std::vector<ParameterRange> blocks_;  // of the arena
  at::Tensor is_own_block_;                   // bool [blocks]: of which this rank has the sum, where there are others
  at::Tensor losses_, squares_;               // float64 [leaves of a batch], [blocks]: what ranks add up
  at::Tensor norm_squared_;                   // [1], where they do; undefined where it is left to the update
  std::vector<at::Tensor> sums_;              // of leaves, each as large as the arena: at level i of the tree
  at::Tensor results_;                        // float64 [pending steps, 2]: loss, squared norm
  std::vector<double> learning_rates_;        // of the pending steps
  bool stops_ = false;
  std::vector<StepResult> read_;  // read from the device already, but not asked for
  RecordedWork first_pass_, next_pass_, update_, evaluation_;
  std::unique_ptr<LeafPasses> leaves_;  // which make all of that where runtime.split is batch; null elsewhere
};

}  // namespace inkling
