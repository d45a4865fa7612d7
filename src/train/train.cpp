#include "train/train.h"

#include <chrono>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <ratio>

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/paths.h"
#include "base/stop_signals.h"
#include "base/strings.h"
#include "checkpoint/generation_config.h"
#include "checkpoint/model_weights.h"
#include "checkpoint/optimizer_file.h"
#include "runtime/cpu_memory.h"
#include "runtime/device.h"
#include "runtime/timing.h"
#include "train/board.h"
#include "train/evaluation.h"
#include "train/plan.h"
#include "train/report.h"
#include "train/resources.h"
#include "train/trainer.h"

namespace inkling {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t max_skipped_in_a_row = 20;

std::string describe_packing(const PackedWindows& packed) {
  std::string words = str("data.documents: align puts ", format_count(packed.documents()), " documents into ",
                          format_count(packed.count()), " windows; ", format_fixed(100 * packed.unused_share(), 1),
                          " % of their places stay empty");
  if (packed.cut_documents() > 0) {
    words += str("; documents longer than a block, which are cut: ", format_count(packed.cut_documents()));
  }
  return words;
}

// The loop and what it carries from step to step.
class Run {
 public:
  // trainer: of this plan, as it is before anything was trained. begun: the time from which training.max_hours count.
  Run(const RunPlan& plan, const RunFolder& folder, Trainer& trainer, Clock::time_point begun)
      : plan_(plan),
        config_(plan.config),
        ranks_(plan.runtime.ranks),
        folder_(folder),
        begun_(begun),
        train_tokens_(plan.dataset.train.shards, plan.dataset.vocab_size, plan.dataset.train.layout),
        windows_(train_tokens_, {.order = config_.data.order,
                                 .seed = config_.training.seed,
                                 .block_size = static_cast<std::uint64_t>(config_.model.block_size),
                                 .documents = config_.data.documents,
                                 .separator = plan.separator}),
        trainer_(trainer),
        evaluator_(plan, windows_, trainer_) {
    if (windows_.packed() != nullptr) log_info(describe_packing(*windows_.packed()));
    if (plan.resume) {
      go_on_from(*plan.resume);
    } else {
      initialize(trainer_.arena(), plan.shape, config_.training.seed, config_.model.initialization);
      if (plan.initial) {
        load_initial_weights(plan.initial->folder, plan.shape, trainer_.arena());
        kept_ = read_kept_config(plan.initial->folder);
      }
      if (trainer_.average() != nullptr) trainer_.average()->begin();
    }
    state_.data_hash = plan.dataset.hash;
    state_.resolved = resolved_from(plan.runtime);
    state_.resolved.micro_batch_size = config_.training.micro_batch_size.value();
    // Files change from here on, because all that could be wrong with a checkpoint has been looked for.
    ranks_.first_alone([&] {
      write_file(folder.path() / "config.yaml", print_config(plan.asked));
      if (state_.reports_due) drop_reports_from_log(folder.path() / "log.jsonl", state_.step);
      open_board();
    });
    report_.emplace(ranks_.is_first() ? folder.path() / "log.jsonl" : fs::path(), state_.step,
                    config_.training.max_steps, flops_per_token(plan.shape),
                    peak_flops(plan.runtime.device, plan.runtime.dtype), board_ ? &*board_ : nullptr);
  }

  // Returns the exit code. Signals are answered in order from then on, also when this has returned.
  int loop(Profile& profile, std::optional<StopInOrder>& in_order) {
    if (config_.training.max_steps == 0 && state_.step == 0) {
      save();
      report_->say(str("saved the model as it is initialised in ", folder_.path().string()));
      return 0;
    }
    in_order.emplace(ranks_.is_first() ? "finishing the step and saving; Ctrl-C again ends at once" : "",
                     !ranks_.is_alone());
    const auto seconds = [before = state_.seconds, start = Clock::now()] {  // of training, in all parts of the run
      return before + std::chrono::duration<double>(Clock::now() - start).count();
    };
    Next next = state_.reports_due ? finish_step(true) : Next::step;
    // It counts from here on, so that each start gets a step or a report further, however early it is over.
    if (config_.training.max_hours > 0) in_order->set_deadline(end_of_time());
    while (next == Next::step) {
      note_step();
      trainer_.step(state_.step, windows_);
      ++state_.step;
      profile.step_done();
      state_.seconds = seconds();
      report_->step_done(state_.step, config_.training.batch_size * config_.model.block_size);
      report_step(is_last());
      next = finish_step(false);
    }
    if (next == Next::stop) {
      report_->say(str(why_stopped(), " after step ", state_.step, " and saved; run the same command again to go on"));
      return exit_stopped;
    }
    report_->say(str("done: ", best_so_far(), ", ", format_duration(state_.seconds), ", peak memory ",
                     format_bytes(peak_resident_bytes()), ", of which training held ",
                     format_bytes(held_bytes(plan_.runtime.device)), "; read what it writes with: inkling-sample ",
                     folder_.path().string()));
    return 0;
  }

 private:
  enum class Next { step, end, stop };

  // Does what belongs to a step that is made: checkpoint, evaluation, samples. is_saved: whether its checkpoint is
  // there. As the reports take far longer than a step, a due checkpoint is saved in front of them, and says that they
  // are due: they are made whole or, where a stop is requested or the process is killed meanwhile, by the next start.
  Next finish_step(bool is_saved) {
    const bool evaluates = is_last() || is_due(config_.evaluation.interval);
    const bool samples = config_.sampling.interval > 0 && (is_last() || is_due(config_.sampling.interval));
    // Asked once, so that what is said is what was done; and before the step was complete, so that all ranks know it.
    const bool stopping = ranks_.is_alone() ? stop_requested() : trainer_.stops();
    const bool saves = !is_saved && (stopping || is_last() || is_due(config_.checkpoint.interval));
    if (is_saved && !evaluates && !samples) {  // by other settings nothing is due; the checkpoint goes on saying so
      state_.reports_due = false;
      return Next::step;
    }
    const bool reports = evaluates || samples;
    if (!reports && !saves) return Next::step;
    read_results(false);  // what a GPU has still to tell of earlier steps belongs to the state
    state_.reports_due = reports;
    const TrainingState before = state_;
    if (saves) save();
    if (stopping) return Next::stop;
    if (!reports) return Next::step;
    bool best = false, ends = is_last();
    try {
      best = evaluates && evaluate();
      ends = ends || (evaluates && stops_early());
      if (samples || ends) sample();
    } catch (const Stopped&) {
      state_ = before;
      if (!saves && !is_saved) save();
      return Next::stop;
    }
    state_.reports_due = false;
    if (saves || is_saved) {
      save_state_alone();
    } else if (best || ends) {
      save();
    }
    return ends ? Next::end : Next::step;
  }

  // What is said if another rank is lost from here on.
  void note_step() const { ranks_.note(str(" in step ", state_.step + 1, "; ", last_saved_)); }
  void note_saved() {
    last_saved_ = str("the last checkpoint is ", checkpoint_folder(folder_.path(), state_.step).string());
  }

  bool is_last() const { return state_.step >= config_.training.max_steps; }

  Clock::time_point end_of_time() const {
    const std::chrono::duration<double, std::ratio<3600>> hours(config_.training.max_hours);
    return begun_ + std::chrono::duration_cast<Clock::duration>(hours);
  }

  std::string why_stopped() const {
    if (stop_signal() != 0) return "stopped by a signal";
    if (!stop_requested()) return "stopped by a signal to another rank";
    return str("stopped by training.max_hours (", format_shortest(config_.training.max_hours), ")");
  }

  void go_on_from(const Resume& resume) {
    const auto load = [&](SavedWeights which) {
      load_weights(resume.checkpoint, plan_.shape, trainer_.arena(), which);
    };
    state_ = resume.state;
    WeightAverage* const average = trainer_.average();
    const bool has_average = average != nullptr && holds_average(resume.checkpoint);
    if (has_average) {
      load(SavedWeights::ema);
      average->begin();
    }
    load(SavedWeights::plain);
    load_optimizer(resume.checkpoint, trainer_.arena(), trainer_.optimizer());
    kept_ = read_kept_config(resume.checkpoint);
    note_saved();
    log_info(str("goes on from ", resume.checkpoint.string()));
    if (average == nullptr || has_average) return;
    average->begin();
    log_info(str("training.ema: the average of the weights begins with those of step ", state_.step));
  }

  bool is_due(std::int64_t interval) const { return interval > 0 && state_.step % interval == 0; }

  // Also without TensorBoard, what its files hold of steps that are made again is dropped.
  void open_board() {
    const std::int64_t steps_done = plan_.resume ? state_.step : -1;
    if (state_.reports_due) drop_reports_from(folder_.path(), steps_done);
    if (!config_.logging.tensorboard) return drop_events_after(folder_.path(), steps_done);
    board_.emplace(folder_.path(), steps_done);
    board_->show_settings(state_.reports_due ? steps_done : steps_done + 1, print_config(plan_.asked));
  }

  void report_step(bool last) {
    const bool logged = state_.step == 1 || last || is_due(config_.logging.interval);
    if (logged || !trainer_.runs_ahead()) read_results(logged);
    if (!config_.logging.tensorboard || !is_due(config_.logging.histograms)) return;
    const Report::Pause pause = pause_of_pace();
    trainer_.complete_gradients();
    trainer_.complete_weights();
    if (board_) board_->show_histograms(state_.step, trainer_.arena());
  }

  void read_results(bool logged) {
    const std::vector<StepResult> results = trainer_.results();
    for (const StepResult& result : results) {
      state_.skipped_in_a_row = result.skipped ? state_.skipped_in_a_row + 1 : 0;
      if (result.skipped) ++state_.skipped_steps;
      if (state_.skipped_in_a_row >= max_skipped_in_a_row) throw_diverged();
    }
    if (!logged) return;
    const Pace pace = report_->log_step(state_.step, results.back(), state_.seconds);
    if (!config_.logging.tensorboard) return;
    const std::vector<GroupNorms> norms = trainer_.norms();
    if (!board_) return;
    board_->show_step(state_.step, results.back(), pace,
                      {.process = peak_resident_bytes(), .training = held_bytes(plan_.runtime.device)});
    board_->show_norms(state_.step, norms);
  }

  // Steps that a GPU has still to make are waited for first: their time counts.
  Report::Pause pause_of_pace() {
    read_results(false);
    return Report::Pause(*report_);
  }

  [[noreturn]] void throw_diverged() const {
    throw Error(
        ErrorKind::diverged,
        str("the gradient was not finite in ", max_skipped_in_a_row, " steps in a row (now at step ", state_.step,
            "); the checkpoints in ", (folder_.path() / "checkpoints").string(), " are untouched. ", diverged_advice));
  }

  // Returns whether the validation loss is the best so far. Throws Stopped, and has done nothing, where a stop cuts it
  // off.
  bool evaluate() {
    const Report::Pause pause = pause_of_pace();
    const auto [train_loss, validation] = evaluator_.evaluate();
    const bool best = note_validation_loss(state_, validation.loss);
    report_->log_evaluation(state_.step, train_loss, validation, best);
    if (note_overfitting(state_, train_loss, validation.loss)) report_->log_overfitting(state_);
    return best;
  }

  // Whether training stops before its last step, which is said then.
  bool stops_early() {
    const std::int64_t patience = config_.training.stop_when.patience;
    if (patience == 0 || state_.evaluations_since_best < patience) return false;
    report_->log_early_stop(state_);
    return true;
  }

  // Throws Stopped where a stop cuts the samples off.
  void sample() {
    const SamplingConfig& sampling = config_.sampling;
    if (sampling.interval == 0) return;
    const Report::Pause pause = pause_of_pace();
    bool is_stopped = false;
    ranks_.first_alone([&] {
      const ModelWithTokenizer model = {
          .model = trainer_.model(), .runtime = plan_.runtime, .tokenizer = *plan_.dataset.tokenizer};
      try {
        leave_if_stopped();
        report_->log_samples(state_.step, draw_samples(sampling, model), sampling.seed);
      } catch (const Stopped&) {
        is_stopped = true;
      }
    });
    if (first_says(is_stopped)) throw Stopped();
  }

  // What rank 0 has found out, in all ranks.
  bool first_says(bool answer) const { return ranks_.gather(answer ? "yes" : "no").front() == "yes"; }

  std::string best_so_far() const {
    if (!state_.best_val_loss) return "no validation loss was finite";
    return str("best val loss ", format_fixed(*state_.best_val_loss, 4), " at step ", state_.best_step);
  }

  void save() {
    const Report::Pause pause = pause_of_pace();
    trainer_.complete_weights();
    const OptimizerStates optimizer = trainer_.whole_optimizer();
    const at::Tensor average = trainer_.whole_average();
    if (!ranks_.is_first()) hand_over_optimizer(optimizer);
    ranks_.first_alone([&] {
      report_->sync();
      save_checkpoint(checkpoint_folder(folder_.path(), state_.step), plan_.asked, plan_.shape, trainer_.arena(),
                      optimizer, state_, plan_.dataset.tokenizer.get(), average, kept_);
      prune_checkpoints(folder_.path(), state_, config_.checkpoint.keep);
    });
    note_saved();
  }

  // What the reports of a step have changed, in the checkpoint of that step.
  void save_state_alone() {
    const fs::path checkpoint = checkpoint_folder(folder_.path(), state_.step);
    if (!first_says(is_there(checkpoint / "state.json"))) return save();  // somebody has moved it away meanwhile
    const Report::Pause pause = pause_of_pace();
    ranks_.first_alone([&] {
      report_->sync();
      save_state(checkpoint, state_);
      prune_checkpoints(folder_.path(), state_, config_.checkpoint.keep);
    });
  }

  const RunPlan& plan_;
  const Config& config_;
  const Ranks ranks_;
  const RunFolder& folder_;
  const Clock::time_point begun_;
  TokenSequence train_tokens_;
  TrainingWindows windows_;
  Trainer& trainer_;
  Evaluator evaluator_;
  TrainingState state_;
  std::string last_saved_ = "there is no checkpoint yet";
  KeptConfig kept_;  // of what the run started from, which may be gone when a checkpoint is saved
  std::optional<Board> board_;
  std::optional<Report> report_;  // on the board too
};

int train_run(RunPlan& plan, const RunFolder& folder, const TrainOptions& options, Clock::time_point begun,
              std::optional<StopInOrder>& in_order) {
  Profile profile(plan.runtime.ranks.is_first() ? options.profile : fs::path(), plan.runtime);
  const auto need = [&] {
    return describe_need(plan.config, plan.shape, plan.runtime, plan.config.training.micro_batch_size.value(),
                         memory_limit(plan.config.runtime, plan.runtime.device));
  };
  try {
    const std::unique_ptr<Trainer> trainer = make_trainer(plan);
    Run run(plan, folder, *trainer, begun);
    return run.loop(profile, in_order);
  } catch (const OutOfMemory& error) {
    throw OutOfMemory(error.kind(), str(error.message(), ": ", need()));
  } catch (const std::bad_alloc&) {
    throw OutOfMemory(ErrorKind::environment, str("the memory is too small: ", need()));
  } catch (const std::exception& error) {
    if (!is_lack_of_memory(error)) throw;
    throw OutOfMemory(ErrorKind::environment, str("the GPU's memory is too small: ", need()));
  }
}

}  // namespace

int train(const Config& asked, const TrainOptions& options) {
  const Clock::time_point begun = Clock::now();
  // Outlives the run and its lock: a SIGHUP that comes twice must not change the exit code while these are put away.
  std::optional<StopInOrder> in_order;
  const Ranks ranks = join_ranks(asked.ranks.timeout);
  std::optional<RunFolder> folder;
  ranks.first_alone([&] { folder.emplace(choose_run_folder(options), options.dry_run); });
  const std::string path = ranks.gather(folder ? folder->path().string() : "").front();
  if (!folder) folder.emplace(path, true);
  if (!options.recipe.empty() && !options.dry_run && is_unused(path)) {
    write_file(folder->path() / recipe_name, options.recipe);
  }
  std::optional<RunPlan> plan;
  ranks.first_then_others([&] { plan = plan_run(asked, options, path, ranks); });
  agree_on_split(ranks, plan ? &*plan : nullptr);
  require_same_plan(ranks, asked, plan ? &*plan : nullptr);
  if (!plan) return 0;
  log_plan(*plan, path);
  const std::string lack = describe_lack_of_room(plan->disk, plan->config.checkpoint.keep);
  if (options.dry_run && !lack.empty()) throw Error::environment(str("dry run: nothing was written; ", lack));
  if (options.dry_run) {
    log_info("dry run: all is well, nothing was written");
    return 0;
  }
  if (!lack.empty()) log_warning(lack);
  return train_run(*plan, *folder, options, begun, in_order);
}

}  // namespace inkling
