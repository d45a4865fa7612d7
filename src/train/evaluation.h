// What a run looks at between its steps: the losses of the model, and what it writes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "config/config.h"
#include "formats/token_file.h"
#include "generate/generator.h"
#include "train/plan.h"
#include "train/trainer.h"

namespace inkling {

struct DrawnSample {
  std::string prompt, text;  // and what follows it
};

// Returns the prompts of sampling.prompts, or the beginning of a document.
std::vector<std::string> sampling_prompts(const SamplingConfig& sampling);

// Throws Error input where the run is to sample and has no tokenizer, or a prompt that it cannot encode.
void check_sampling(const SamplingConfig& sampling, const Tokenizer* tokenizer);

// What was drawn, or why nothing was: a model that cannot write yet, or for whose texts there is no memory left, goes
// on training.
struct DrawnSamples {
  std::vector<DrawnSample> samples;
  std::string why_none = {};
};

// Draws a sample for each prompt; throws Stopped (base/stop_signals.h) behind a token, once a stop was requested.
// Changes nothing that training reads. Each sample is what inkling-sample writes from a checkpoint of this step with
// these settings.
DrawnSamples draw_samples(const SamplingConfig& sampling, const ModelWithTokenizer& model);

struct ValidationLoss {
  double loss = 0;                                     // nats per token
  std::optional<double> best_possible = std::nullopt;  // on the same text, if a grammar wrote it
  std::optional<double> of_average = std::nullopt;     // the loss of the averaged weights, with training.ema
};

// Reads some of both splits with the model, without changing anything that training reads.
class Evaluator {
 public:
  Evaluator(const RunPlan& plan, const TrainingWindows& training, Trainer& trainer);

  struct Losses {
    double training = 0;
    ValidationLoss validation;
  };
  // Throws Stopped (base/stop_signals.h) where a stop cuts it off.
  Losses evaluate();

 private:
  ValidationLoss validation_loss();
  double loss_of_average();

  const RunPlan& plan_;
  const TrainingWindows& training_;
  TokenSequence validation_;
  std::optional<PackedWindows> packed_validation_;  // where training's are packed
  Trainer& trainer_;
};

// Records an evaluation in which the validation loss was `val_loss`, after note_validation_loss(). Returns true once,
// when overfitting is seen: three evaluations in a row whose validation loss was more than 0.5 % above its best, while
// the training loss was below what it was at that best. A chance dip of the weights lowers both losses, so that it is
// no best from which training falls further; only what is learnt of the training text alone parts them. It can be seen
// again after a new best validation loss.
bool note_overfitting(TrainingState& state, double train_loss, double val_loss);

}  // namespace inkling
