// What a batch holds, and its leaves: micro-batches that workers take through forward and backward, each alone, from
// fresh gradients. The gradients are added up in one fixed order, so that the same leaves give the same bits with any
// number of workers.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "config/config.h"
#include "data/windows.h"
#include "formats/token_file.h"
#include "model/model.h"
#include "optim/optimizer.h"
#include "optim/weight_average.h"
#include "runtime/parallel.h"
#include "train/exchange.h"

namespace inkling {

struct Batch {
  at::Tensor tokens;          // int64 [B, T]
  at::Tensor targets;         // int64 [B, T]: the token that follows each, or not_scored
  at::Tensor positions = {};  // int64 [B, T]: TrainingPass::positions, where documents are kept apart

  // The tensors that there are, in this order.
  std::vector<at::Tensor> tensors() const;
  Batch first_rows(std::int64_t count) const;
};

// What one row of a batch holds, one range behind the other.
using Row = std::vector<TokenRange>;

// Returns zeros on `device`, T = block_size; without positions unless documents are kept apart.
Batch empty_batch(std::int64_t rows, std::int64_t block_size, at::Device device, bool has_positions = false);

// Writes these rows into the first of `batch`, whose tensors are on the CPU. With a separator, documents are kept
// apart: one begins with each range and with each separator. Where a row holds fewer than T inputs, separators that are
// not scored fill it up, which needs one.
void fill_batch(const Batch& batch, const TokenSequence& sequence, std::span<const Row> rows,
                std::optional<Token> separator = {});

// Returns the batch of step `step`: its row r is window number step * batch_size + r.
std::vector<Row> training_rows(const TrainingWindows& windows, std::int64_t step, std::int64_t batch_size);

// Returns how many inputs these rows hold, which is how many targets are scored.
std::uint64_t scored_targets(std::span<const Row> rows);

// Returns `count` evaluation windows, or as many as there are: evenly spread over the sequence, or over its packed
// windows, the same at every evaluation.
std::vector<Row> evaluation_rows(std::uint64_t token_count, std::int64_t block_size, std::int64_t count);
std::vector<Row> evaluation_rows(const PackedWindows& windows, std::int64_t count);

// Leaves [begin, end) of a batch whose gradients are added up by themselves before others come to them.
struct LeafSum {
  std::int64_t begin = 0, end = 0;

  std::int64_t count() const { return end - begin; }
  bool operator==(const LeafSum&) const = default;

  // The two sums that make up this one of several leaves: as many as a power of two, and the rest. So all of a batch
  // are
  // ((0 + 1) + (2 + 3)) + …
  LeafSum first() const;
  LeafSum second() const;
};

// Returns the sums that one of `workers` makes of so many leaves, in order: the largest that have no leaves but its
// own.
std::vector<LeafSum> sums_of_worker(std::int64_t leaves, int worker, int workers);

// Returns the leaves of a rank, whose gradients it adds up by itself: part_of(), so that the last ranks may have none.
Range leaves_of_rank(std::int64_t leaves, const Ranks& ranks);

std::int64_t most_leaves_of_rank(std::int64_t leaves, const Ranks& ranks);

// Returns how many ranks have any.
int ranks_with_leaves(std::int64_t leaves, int ranks);

// Returns how many gradients of the whole model the workers hold together.
std::int64_t gradients_held(std::int64_t leaves, int workers);

// What the ranks agree on in a step.
struct StepSums {
  double loss = 0;          // nats per token, mean over the scored targets of the batch
  at::Tensor norm_squared;  // float64 [1], of the gradient
  bool stops = false;       // whether a stop was requested in any of them (base/stop_signals.h)
};

// Returns the sums, in order, of what the ranks have: each loss and each square in one of them, and 0 in the others.
StepSums agree(const Ranks& ranks, std::span<const double> losses, std::span<const double> squares);

// The passes and updates of a Trainer whose batch is shared out over workers, and over ranks.
class LeafPasses {
 public:
  // config.training.micro_batch_size must be a number. `arena` must outlive it, and gets the sum of all gradients, or
  // what of it this rank owns.
  LeafPasses(const Config& config, const GptShape& shape, const Runtime& runtime, ParameterArena& arena,
             std::optional<Token> separator);

  // Takes this batch of training through forward and backward, and adds up. dropout_key: that of the step. exchange:
  // null where there are no other ranks.
  StepSums accumulate(const TokenSequence& tokens, std::span<const Row> batch, std::uint64_t dropout_key,
                      RankExchange* exchange);

  // Updates the weights, and their average unless it is null.
  void update(Optimizer& optimizer, const at::Tensor& norm_squared, WeightAverage* average);

  // Returns the sum of the losses of all targets that are scored, without dropout. Throws Stopped (base/stop_signals.h)
  // once a stop was requested, in all ranks.
  double evaluate(const TokenSequence& tokens, std::span<const Row> rows);

 private:
  // A model with gradients of its own. The first of all has those of the arena.
  struct Slot {
    std::unique_ptr<ParameterArena> own;
    ParameterArena* arena = nullptr;
    std::unique_ptr<Model> model;
  };
  struct Worker {
    Batch batch;
    at::Tensor dropout_key;
    std::vector<LeafSum> sums;  // number i of them ends up in slot i
    std::vector<Slot> slots;
  };
  // Elements of one gradient that are added to those of another.
  struct Addition {
    float* to;
    const float* from;
  };

  void add_up(Worker& worker, const LeafSum& leaves, std::size_t slot);
  void pass(Worker& worker, std::int64_t leaf, Slot& slot);
  float* plan_additions(const LeafSum& sum);
  void each_block(const std::function<void(std::size_t block)>& work);
  void add_workers(std::size_t block);  // their sums, of these elements
  void square(std::size_t block);
  std::span<const Row> rows_of(std::span<const Row> rows, std::int64_t leaf) const;

  const Config& config_;
  const Ranks ranks_;
  ParameterArena& arena_;
  std::optional<Token> separator_;
  std::vector<ParameterRange> blocks_;
  Range own_;  // of the batch's leaves
  Workers threads_;
  std::vector<Worker> workers_;
  std::vector<Addition> additions_;  // of the workers' sums, in order

  // Of the step that is made: what it reads, and the loss of each leaf.
  const TokenSequence* tokens_ = nullptr;
  std::span<const Row> batch_;
  double scored_ = 0;
  std::vector<double> losses_, squares_;
};

}  // namespace inkling
