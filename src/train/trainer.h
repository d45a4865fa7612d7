// One training step: gradients of all micro-batches, clipping, AdamW.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "config/config.h"
#include "data/windows.h"
#include "formats/token_file.h"
#include "model/arena.h"
#include "model/device.h"
#include "model/gpt.h"
#include "optim/adamw.h"
#include "train/graphed_step.h"
#include "train/step_result.h"

namespace inkling {

// The model's shape as the settings say it.
GptShape shape_from(const ModelConfig& model, std::uint64_t vocab_size);

// What the dropout of the micro-batch that begins with row `first` of step `step` is drawn from.
std::uint64_t dropout_key(std::uint64_t seed, std::int64_t step, std::int64_t first);

// Owns what training changes: the arena and the moments.
class Trainer {
 public:
  // config.training.micro_batch_size must be a number.
  Trainer(const Config& config, const GptShape& shape, const Runtime& runtime);

  // Step number `step` (from 0) on rows of `tokens` that `order` names: a function of (seed, step, weights, moments,
  // data) and nothing else. With the fused kernels on a GPU it is only queued.
  void step(std::int64_t step, const TokenSequence& tokens, const WindowOrder& order);

  // Of the steps since the last call, in order. Waits for a GPU.
  std::vector<StepResult> results();

  // Mean loss in nats per token over `batches` batches of fixed windows, without dropout. Disturbs nothing.
  double estimate_loss(const TokenSequence& tokens) const;

  ParameterArena& arena() { return arena_; }
  AdamW& optimizer() { return optimizer_; }
  const Gpt& model() const { return model_; }

 private:
  double micro_batch(std::int64_t step, std::int64_t first, const TokenSequence& tokens, const WindowOrder& order);

  Config config_;
  Runtime runtime_;
  ParameterArena arena_;
  Gpt model_;
  AdamW optimizer_;
  std::unique_ptr<GraphedStep> graphed_;  // made by the first step
  std::vector<StepResult> results_;
};

}  // namespace inkling
