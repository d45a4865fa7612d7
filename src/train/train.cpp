#include "train/train.h"

#include <c10/util/Exception.h>

#include <chrono>
#include <optional>

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/strings.h"
#include "config/words.h"
#include "data/dataset.h"
#include "model/device.h"
#include "ops/cpu_memory.h"
#include "train/evaluate.h"
#include "train/fit.h"
#include "train/memory.h"
#include "train/profile.h"
#include "train/report.h"
#include "train/signals.h"
#include "train/trainer.h"

namespace inkling {
namespace {

constexpr std::int64_t most_skipped_in_a_row = 20;

// `auto` settings keep the meaning they had when the run began, where this machine allows it.
Runtime resume_runtime(const RuntimeConfig& asked, const Resolved& resolved) {
  RuntimeConfig wanted = asked;
  wanted.device = asked.device.value_or(resolved.device);
  wanted.dtype = asked.dtype.value_or(resolved.dtype);
  wanted.kernels = asked.kernels.value_or(resolved.kernels);
  wanted.threads = asked.threads.value_or(resolved.threads);
  try {
    return resolve_runtime(wanted);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::environment) throw;
    log_warning(str("not bit-identical to an uninterrupted run because it began on ", device_text(resolved.device),
                    ", which is not to be had here"));
    return resolve_runtime(asked);
  }
}

void check_recompute(const Config& config, const Runtime& runtime) {
  if (config.training.recompute == Recompute::gelu && runtime.kernels == Kernels::reference) {
    throw Error::input(
        "training.recompute: gelu is for the fused kernels, and this run computes with LibTorch's operations "
        "(runtime.kernels: reference); block works with both");
  }
  if (config.training.recompute == Recompute::block && config.model.dropout > 0 && !runtime.device.is_cpu()) {
    throw Error::input(
        "training.recompute: block would draw other dropout numbers on a GPU when it computes a block again; set "
        "model.dropout: 0, or training.recompute: none");
  }
}

// `auto` as it was resolved when the run began, or resolved now.
Config with_micro_batch_size(const Config& asked, const GptShape& shape, const Runtime& runtime,
                             const std::optional<Resume>& resume) {
  Config config = asked;
  std::optional<std::int64_t>& size = config.training.micro_batch_size;
  const std::uint64_t limit = memory_limit(asked.runtime, runtime.device);
  const std::int64_t before = resume ? resume->state.resolved.micro_batch_size : 0;
  const bool automatic = !size;
  if (automatic && before > 0 && asked.training.batch_size % before == 0) size = before;
  try {
    size = fitting_micro_batch_size(config, shape, runtime, limit);
  } catch (const Error&) {
    if (!automatic || !size) throw;
    log_warning(str("not bit-identical to an uninterrupted run because training.micro_batch_size was ", before,
                    " when it began, and no longer fits into memory"));
    size.reset();
    size = fitting_micro_batch_size(config, shape, runtime, limit);
  }
  if (automatic && *size < asked.training.batch_size) {
    log_info(str("training.micro_batch_size: ", *size, " of ", asked.training.batch_size,
                 " windows at a time fit into memory"));
  }
  return config;
}

void say_what_is_ahead(const Config& config, const Dataset& dataset, const GptShape& shape, const Runtime& runtime,
                       const std::filesystem::path& run) {
  const ParameterLayout layout(gpt_parameters(shape));
  if (dataset.train.tokens == 0) {
    log_info(str("data: ", dataset.folder.string(), ", vocabulary ", shape.vocab_size,
                 " as asked for; how many tokens shows when the tokenizer is trained"));
  } else {
    log_info(str("data: ", dataset.folder.string(), ", ", format_count(dataset.train.tokens), " training and ",
                 format_count(dataset.validation.tokens), " validation tokens, vocabulary ", shape.vocab_size));
  }
  log_info(str("model: ", shape.n_layer, " layers, ", shape.n_head, " heads, width ", shape.n_embd, ", block ",
               shape.block_size, ": ", format_count(static_cast<std::uint64_t>(layout.parameter_count())),
               " parameters"));
  log_info(str("runs on ", runtime.device_name(), " in ", runtime.dtype == at::kFloat ? "float32" : "bfloat16", ", ",
               word_of(runtime.kernels), " kernels; ",
               describe_memory(training_memory(config, shape, layout.size(), runtime))));
  log_info(str("writes to ", run.string()));
}

// The loop and what it carries from step to step.
class Run {
 public:
  // asked: as the person wrote it; config: with training.micro_batch_size a number.
  Run(const Config& asked, const Config& config, const RunFolder& folder, const Dataset& dataset,
      const Runtime& runtime, const GptShape& shape, const std::optional<Resume>& resume)
      : asked_(asked),
        config_(config),
        folder_(folder),
        dataset_(dataset),
        runtime_(runtime),
        shape_(shape),
        train_tokens_(dataset.train.shards, dataset.vocab_size),
        validation_tokens_(dataset.validation.shards, dataset.vocab_size),
        order_(config.data.order, config.training.seed, train_tokens_.count(),
               static_cast<std::uint64_t>(config.model.block_size)),
        trainer_(config, shape, runtime) {
    if (resume) {
      state_ = resume->state;
      load_weights(resume->checkpoint, shape, trainer_.arena());
      load_optimizer(resume->checkpoint, trainer_.arena(), trainer_.optimizer());
      log_info(str("goes on from ", resume->checkpoint.string()));
    } else {
      initialize(trainer_.arena(), shape, config.training.seed);
    }
    state_.data_hash = dataset.hash;
    state_.resolved = resolved_config(config.runtime, runtime);
    state_.resolved.micro_batch_size = config.training.micro_batch_size.value();
    // From here on files change: what could be found wrong with a checkpoint has been found.
    write_file(folder.path() / "config.yaml", print_config(asked));
    report_.emplace(folder.path() / "log.jsonl", state_.step, config.training.max_steps,
                    flops_per_token(shape, trainer_.arena().parameter_count()),
                    peak_flops(runtime.device, runtime.dtype));
  }

  int loop(Profile& profile) {
    const StopSignal stop;
    const double seconds_before = state_.seconds;
    const auto start = std::chrono::steady_clock::now();
    if (config_.training.max_steps == 0) {
      save();
      report_->say(str("saved the model as it is initialised in ", folder_.path().string()));
      return 0;
    }
    while (state_.step < config_.training.max_steps) {
      trainer_.step(state_.step, train_tokens_, order_);
      ++state_.step;
      profile.step_done();
      state_.seconds = seconds_before + std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      report_->step_done(state_.step, config_.training.batch_size * config_.model.block_size);
      const bool last = state_.step == config_.training.max_steps;
      const bool logged = state_.step == 1 || last || state_.step % config_.logging.interval == 0;
      // On a GPU asking for results waits for it, so they are asked for when they are needed.
      if (logged || runtime_.device.is_cpu() || state_.step % config_.checkpoint.interval == 0) {
        const std::vector<StepResult> results = trainer_.results();
        count_skipped(results);
        if (logged) report_->log_step(state_.step, results.back(), state_.seconds);
      }
      const bool best = (last || state_.step % config_.evaluation.interval == 0) && evaluate();
      const bool stopping = stop.requested();  // asked once a step, so that what is said is what was done
      if (best || last || stopping || state_.step % config_.checkpoint.interval == 0) save();
      if (stopping && !last) {
        report_->say(
            str("stopped by a signal after step ", state_.step, " and saved; run the same command again to go on"));
        return exit_stopped;
      }
    }
    report_->say(str("done: ", best_so_far(), ", ", format_duration(state_.seconds), ", peak memory ",
                     format_bytes(peak_resident_bytes()), ", of which training held ",
                     format_bytes(held_bytes(runtime_.device)), "; read what it writes with: inkling-sample ",
                     folder_.path().string()));
    return 0;
  }

 private:
  void count_skipped(const std::vector<StepResult>& results) {
    for (const StepResult& result : results) {
      state_.skipped_in_a_row = result.skipped ? state_.skipped_in_a_row + 1 : 0;
      if (result.skipped) ++state_.skipped_steps;
      if (state_.skipped_in_a_row >= most_skipped_in_a_row) refuse_to_go_on();
    }
  }

  [[noreturn]] void refuse_to_go_on() const {
    throw Error(ErrorKind::diverged,
                str("the gradient was not finite in ", most_skipped_in_a_row, " steps in a row (now at step ",
                    state_.step, "); the checkpoints in ", (folder_.path() / "checkpoints").string(),
                    " are untouched. Try a lower optimizer.learning_rate, a longer schedule.warmup_steps or "
                    "optimizer.grad_clip: 1.0, with --fresh"));
  }

  // Returns whether the validation loss is the best so far.
  bool evaluate() {
    give_back_cpu_memory();  // what a step keeps is of no use here, nor what this keeps in the next step
    EvaluationLosses losses{.step = state_.step, .train_loss = trainer_.estimate_loss(train_tokens_)};
    if (dataset_.bound_file) {  // whole stories, on which the best possible loss is known
      const auto stories = static_cast<std::uint64_t>(config_.evaluation.batches * config_.training.batch_size);
      const Evaluation evaluation = evaluate_validation(trainer_.model(), runtime_, dataset_, stories);
      losses.val_loss = evaluation.loss;
      if (evaluation.bound) losses.best_possible = evaluation.bound->best_possible;
    } else {
      losses.val_loss = trainer_.estimate_loss(validation_tokens_);
    }
    give_back_cpu_memory();
    const bool best = note_validation_loss(state_, losses.val_loss);
    report_->log_evaluation(losses, best);
    return best;
  }

  std::string best_so_far() const {
    if (!state_.best_val_loss) return "no validation loss was finite";
    return str("best val loss ", format_fixed(*state_.best_val_loss, 4), " at step ", state_.best_step);
  }

  void save() {
    count_skipped(trainer_.results());
    report_->sync();
    save_checkpoint(checkpoint_folder(folder_.path(), state_.step), asked_, shape_, trainer_.arena(),
                    trainer_.optimizer(), state_, dataset_.tokenizer.get());
    prune_checkpoints(folder_.path(), state_, config_.checkpoint.keep);
  }

  Config asked_, config_;
  const RunFolder& folder_;
  const Dataset& dataset_;
  Runtime runtime_;
  GptShape shape_;
  TokenSequence train_tokens_, validation_tokens_;
  WindowOrder order_;
  Trainer trainer_;
  TrainingState state_;
  std::optional<Report> report_;
};

}  // namespace

int train(const Config& asked, const TrainOptions& options) {
  const std::filesystem::path path = choose_run_folder(options);
  const RunFolder folder(path, options.dry_run);
  const auto resume = find_resume(path, asked, options.accept_changes);
  if (resume && resume->state.step >= asked.training.max_steps) {
    log_info(str("this run is finished: ", resume->state.step, " steps are done, and training.max_steps is ",
                 asked.training.max_steps, ". Raise training.max_steps to go on, or give --fresh to start over"));
    return 0;
  }
  const Runtime runtime =
      resume ? resume_runtime(asked.runtime, resume->state.resolved) : resolve_runtime(asked.runtime);
  const auto check_hash = [&](const std::string& hash) {
    if (!resume || resume->state.data_hash == hash) return;
    throw Error::input(str("the text of data.source is not what the run in ", path.string(),
                           " was trained on; bring the old text back, or start over beside it with --fresh"));
  };
  const Dataset dataset = prepare_dataset(
      asked.data, {.block_size = asked.model.block_size, .dry_run = options.dry_run, .check_hash = check_hash});
  reuse_cpu_memory();
  const GptShape shape = shape_from(asked.model, dataset.vocab_size);
  check_recompute(asked, runtime);
  const Config config = with_micro_batch_size(asked, shape, runtime, resume);
  say_what_is_ahead(config, dataset, shape, runtime, path);
  if (options.dry_run) {
    log_info("dry run: all is well, nothing was written");
    return 0;
  }
  Profile profile(options.profile, runtime);
  try {
    return Run(asked, config, folder, dataset, runtime, shape, resume).loop(profile);
  } catch (const c10::OutOfMemoryError&) {
    throw OutOfMemory(ErrorKind::environment,
                      str("the GPU's memory is too small: ", describe_need(config, shape, runtime)));
  } catch (const OutOfMemory& error) {
    throw OutOfMemory(error.kind(), str(error.message(), ": ", describe_need(config, shape, runtime)));
  }
}

}  // namespace inkling
