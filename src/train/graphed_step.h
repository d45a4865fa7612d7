// A training step on a GPU with the fused kernels: recorded once in CUDA graphs, then queued again for each step, so
// that the GPU never waits for the host. The host waits for results, and where it is four batches ahead.
#pragma once

#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <functional>
#include <optional>
#include <vector>

#include "config/config.h"
#include "model/gpt.h"
#include "ops/cuda_library.h"
#include "optim/adamw.h"
#include "train/batches.h"
#include "train/step_result.h"

namespace inkling {

class GraphedStep {
 public:
  // All of these must outlive it; the optimizer has the fused kernels. Runs the passes once to warm up, without an
  // update. Everything it does later is queued on the stream that is current now.
  GraphedStep(const Config& config, const Gpt& model, ParameterArena& arena, AdamW& optimizer);

  // Queues step number `step` at `learning_rate`.
  void queue(std::int64_t step, double learning_rate, const TokenSequence& tokens, const WindowOrder& order);

  // Of the steps queued since the last call, in order. Waits for the GPU.
  std::vector<StepResult> results();

  // Queues total += the sum of the losses of the windows that begin at `starts`, a micro-batch of them, without
  // dropout. total: float64 [].
  void add_losses(const TokenSequence& tokens, const std::vector<std::uint64_t>& starts, const at::Tensor& total);

 private:
  // Where a batch waits between host and graph: copied on a stream of its own, beside what the GPU computes.
  struct Slot {
    Batch pinned, device;
    std::optional<c10::Event> arrived, used;
  };

  Batch empty_batch(bool pinned) const;
  void pass(bool first);
  void evaluation_pass();
  void load(const std::function<void(const Batch&)>& fill);

  const Config& config_;
  const Gpt& model_;
  ParameterArena& arena_;
  AdamW& optimizer_;
  const CudaLibrary& cuda_;

  Batch batch_;                         // what the graphs read
  at::Tensor dropout_key_;              // int64 [1]
  at::Tensor loss_;                     // float32 [1], of the step so far
  at::Tensor evaluated_;                // float32 [], the loss of an evaluation's pass
  at::Tensor results_;                  // float32 [steps queued, 2]: loss, squared norm
  std::vector<double> learning_rates_;  // of these steps
  std::vector<StepResult> pending_;     // read, but not asked for yet
  std::optional<c10::Stream> copies_;
  std::vector<Slot> slots_;
  std::size_t next_slot_ = 0;
  std::function<void()> first_pass_, next_pass_, update_, evaluation_;
};

}  // namespace inkling
