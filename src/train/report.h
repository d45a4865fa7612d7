// What a person sees while a run goes on, and the same in log.jsonl.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/progress.h"
#include "checkpoint/checkpoint.h"
#include "train/evaluation.h"
#include "train/trainer.h"

namespace inkling {

// How fast training has been since the last line.
struct Pace {
  double tokens_per_second = 0;
  double mfu = 0;  // the share of the device's peak; 0: not known
};

// Returns "the validation loss has not improved in 3 evaluations, since 1.4712 at step 500".
std::string describe_standstill(const TrainingState& state);

// Takes the lines of step `steps_done` that stand behind its own out of the log, and those of later steps: a run that
// has still to make the evaluation and the samples of that step will write them again.
void drop_reports_from_log(const std::filesystem::path& log, std::int64_t steps_done);

class Board;

// Says what happens on the console, in log.jsonl and, where there is one, on TensorBoard's board.
class Report {
 public:
  // While it lives, time passes that no step takes, and does not count for the pace.
  class Pause {
   public:
    explicit Pause(Report& report) : report_(report) {}
    ~Pause() { report_.since_ += std::chrono::steady_clock::now() - begun_; }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    Report& report_;
    const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  };

  // Appends to `log`, from which lines after `steps_done` are dropped first: a run that was cut off after its last
  // checkpoint makes those steps again. flops_per_token and peak_flops give the MFU; with a peak of 0 there is none.
  // board: may be null, and must outlive it. log: "" for a rank that leaves it to rank 0, which writes nothing.
  Report(const std::filesystem::path& log, std::int64_t steps_done, std::int64_t max_steps, double flops_per_token,
         double peak_flops, Board* board = nullptr);
  ~Report();
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;

  void step_done(std::int64_t step, std::int64_t tokens);  // moves the bar on a terminal
  Pace log_step(std::int64_t step, const StepResult& result, double total_seconds);
  void log_evaluation(std::int64_t step, double train_loss, const ValidationLoss& validation, bool is_best);
  void log_samples(std::int64_t step, const DrawnSamples& drawn, std::uint64_t seed);
  // What happened at a step.
  void log_overfitting(const TrainingState& state);
  void log_early_stop(const TrainingState& state);
  void sync();                        // puts all that was logged on the disk; to be called before a checkpoint
  void say(const std::string& line);  // prints a plain line without breaking the bar

 private:
  void append(const std::string& json_line);

  int log_ = -1;  // a file descriptor
  std::filesystem::path path_;
  std::int64_t max_steps_;
  double flops_per_token_, peak_flops_;
  Board* board_;
  std::int64_t tokens_since_ = 0, steps_since_ = 0;
  double seconds_per_step_ = 0;
  std::chrono::steady_clock::time_point since_;
  std::optional<Progress> bar_;
};

}  // namespace inkling
