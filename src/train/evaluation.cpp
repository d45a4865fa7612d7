#include "train/evaluation.h"

#include <cmath>
#include <exception>

#include "base/error.h"
#include "base/stop_signals.h"
#include "base/strings.h"
#include "evaluate/validation.h"
#include "runtime/cpu_memory.h"
#include "runtime/device.h"
#include "text/prompts.h"

namespace inkling {
namespace {

std::vector<DrawnSample> draw(const SamplingConfig& sampling, const ModelWithTokenizer& model) {
  const std::vector<std::string> prompts = sampling_prompts(sampling);
  const GenerationSettings settings = {
      .max_tokens = sampling.max_tokens, .sampling = sampling.settings, .seed = sampling.seed};
  const auto watch = [](std::size_t, const Sample&, std::string_view, bool) { return !stop_requested(); };
  give_back_cpu_memory();  // the blocks kept for a step are of no use here, nor are these in the next step
  const std::vector<Sample> samples = generate(model, prompts, settings, watch);
  give_back_cpu_memory();
  leave_if_stopped();
  std::vector<DrawnSample> drawn;
  for (const Sample& sample : samples) drawn.push_back({prompts[sample.prompt], sample.text});
  return drawn;
}

constexpr double margin = 1.005;

}  // namespace

std::vector<std::string> sampling_prompts(const SamplingConfig& sampling) {
  return sampling.prompts.empty() ? std::vector<std::string>{""} : sampling.prompts;
}

void check_sampling(const SamplingConfig& sampling, const Tokenizer* tokenizer) {
  if (sampling.interval == 0) return;
  if (tokenizer == nullptr) {
    throw Error::input(str("sampling.interval is ", sampling.interval,
                           ", and ready token files have no tokenizer that turns tokens into text; write "
                           "sampling.interval: 0, or train from the text"));
  }
  const std::vector<std::string> prompts = sampling_prompts(sampling);
  hint_at_names(*tokenizer, {prompts, std::vector<std::string>(prompts.size(), "sampling.prompts")}, {});
  for (const std::string& prompt : prompts) {
    try {
      encode_prompt(*tokenizer, prompt);
    } catch (const Error& error) {
      throw Error(error.kind(), str("sampling.prompts, ", quote(prompt), ": ", error.message()));
    }
  }
}

DrawnSamples draw_samples(const SamplingConfig& sampling, const ModelWithTokenizer& model) {
  try {
    return {.samples = draw(sampling, model)};
  } catch (const OutOfMemory& error) {
    return {.samples = {}, .why_none = error.message()};
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::input && error.kind() != ErrorKind::diverged) throw;
    return {.samples = {}, .why_none = error.message()};
  } catch (const std::exception& error) {
    if (!is_lack_of_memory(error)) throw;
    return {.samples = {}, .why_none = "the GPU's memory is too small for it beside training"};
  }
}

Evaluator::Evaluator(const RunPlan& plan, const TrainingWindows& training, Trainer& trainer)
    : plan_(plan),
      training_(training),
      validation_(plan.dataset.validation.shards, plan.dataset.vocab_size, plan.dataset.validation.layout),
      trainer_(trainer) {
  if (training.packed() == nullptr || plan.dataset.bound_file) return;
  packed_validation_.emplace(validation_, plan.separator.value(),
                             static_cast<std::uint64_t>(plan.config.model.block_size));
}

Evaluator::Losses Evaluator::evaluate() {
  give_back_cpu_memory();  // the blocks kept for a step are of no use here, nor are these in the next step
  Losses losses{.validation = validation_loss()};
  if (trainer_.average() != nullptr) losses.validation.of_average = loss_of_average();
  losses.training = trainer_.estimate_loss(training_.tokens(), training_.packed());
  give_back_cpu_memory();
  return losses;
}

// The weights come back where a stop cuts the evaluation off, too.
double Evaluator::loss_of_average() {
  std::exception_ptr stopped;
  double loss = 0;
  trainer_.exchange_average();
  try {
    loss = validation_loss().loss;
  } catch (const Stopped&) {
    stopped = std::current_exception();
  }
  trainer_.exchange_average();
  if (stopped) std::rethrow_exception(stopped);
  return loss;
}

// On as many stories or windows as evaluation.batches batches hold: on whole stories, whose best possible loss is
// known, where the data has them.
ValidationLoss Evaluator::validation_loss() {
  if (!plan_.dataset.bound_file)
    return {.loss = trainer_.estimate_loss(validation_, packed_validation_ ? &*packed_validation_ : nullptr)};
  const auto stories = static_cast<std::uint64_t>(plan_.config.evaluation.batches * plan_.config.training.batch_size);
  const Evaluation evaluation =
      evaluate_validation(trainer_.model(), plan_.runtime, plan_.dataset, stories, {}, plan_.separator);
  if (!evaluation.bound) return {.loss = evaluation.loss};
  return {.loss = evaluation.loss, .best_possible = evaluation.bound->best_possible};
}

bool note_overfitting(TrainingState& state, double train_loss, double val_loss) {
  if (state.best_step == state.step) {  // this evaluation's
    state.train_loss_at_best = std::isfinite(train_loss) ? std::optional(train_loss) : std::nullopt;
    state.overfitting_in_a_row = 0;
    return false;
  }
  if (state.overfitting_in_a_row == overfitting_seen || !state.best_val_loss || !state.train_loss_at_best) return false;
  const bool part = val_loss > margin * *state.best_val_loss && train_loss < *state.train_loss_at_best;
  state.overfitting_in_a_row = part ? state.overfitting_in_a_row + 1 : 0;
  return state.overfitting_in_a_row == overfitting_seen;
}

}  // namespace inkling
