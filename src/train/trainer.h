// One training step: gradients of all micro-batches, clipping, AdamW.
#pragma once

#include <cstdint>

#include "config/config.h"
#include "data/windows.h"
#include "formats/token_file.h"
#include "model/arena.h"
#include "model/device.h"
#include "model/gpt.h"
#include "optim/adamw.h"

namespace inkling {

struct StepResult {
  double loss = 0;  // nats per token, mean over the whole batch, before the update
  double learning_rate = 0;
  double grad_norm = 0;  // before clipping
  bool skipped = false;  // the gradient was not finite: weights and moments are as they were
};

// The model's shape as the settings say it.
GptShape shape_from(const ModelConfig& model, std::uint64_t vocab_size);

// Owns what training changes: the arena and the moments.
class Trainer {
 public:
  // config.training.micro_batch_size must be a number.
  Trainer(const Config& config, const GptShape& shape, const Runtime& runtime);

  // Step number `step` (from 0) on rows of `tokens` that `order` names: a function of (seed, step, weights, moments,
  // data) and nothing else.
  StepResult step(std::int64_t step, const TokenSequence& tokens, const WindowOrder& order);

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
};

}  // namespace inkling
