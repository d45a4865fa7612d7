// What TensorBoard shows of a run, and under which tags. Numbers that are also in log.jsonl are the same.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "formats/event_file.h"
#include "model/arena.h"
#include "train/evaluation.h"
#include "train/report.h"
#include "train/trainer.h"

namespace inkling {

// The event files lie in the run's folder, so that `tensorboard --logdir runs` names the run as its folder.
//
// Each start of a run writes a file of its own, which TensorBoard reads after those of earlier starts, by its name.
// What earlier starts wrote of steps that are made again is cut off first. A TensorBoard that reads the files meanwhile
// has no place within a file that grows again, and the new file tells it which steps to forget.

// Whether this is the name of an event file that inkling writes.
bool is_event_file(const std::filesystem::path& file);

// Cuts off what belongs to steps after `steps_done` (-1: everything), and puts this on the disk. A file of which
// nothing is left stays: a TensorBoard that has it open would wait for it and read no other. Other programs' event
// files stay as they are. Throws Error environment if it cannot.
void drop_events_after(const std::filesystem::path& run, std::int64_t steps_done);

// Does the same, and cuts off what is shown behind the numbers of step `steps_done` too: its evaluation, its events and
// its samples.
void drop_reports_from(const std::filesystem::path& run, std::int64_t steps_done);

class EventFile {
 public:
  // Calls drop_events_after() and makes a new file, whose name comes after those of all that were there.
  EventFile(const std::filesystem::path& run, std::int64_t steps_done);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  // Appends the values of a step, which must not be before those of the last call, whole or, in a crash, in part.
  void append(std::int64_t step, const SummaryValues& values);
  void sync();  // puts everything so far on the disk; to be called before a checkpoint

 private:
  void write(const std::string& record);

  std::filesystem::path path_;
  int file_ = -1;
};

// The memory of a run so far, in bytes.
struct MemoryPeaks {
  std::uint64_t process = 0, training = 0;
};

class Board {
 public:
  // steps_done: those of the checkpoint that the run goes on from; -1 for a new run.
  Board(const std::filesystem::path& run, std::int64_t steps_done) : file_(run, steps_done) {}

  // Those of a start: at step 0, or at the first step that a resumed run makes.
  void show_settings(std::int64_t step, const std::string& yaml);
  void show_step(std::int64_t step, const StepResult& result, const Pace& pace, const MemoryPeaks& memory);
  void show_norms(std::int64_t step, const std::vector<GroupNorms>& norms);
  void show_histograms(std::int64_t step, const ParameterArena& arena);  // of all weights and gradients
  void show_evaluation(std::int64_t step, double train_loss, const ValidationLoss& validation);
  void show_sample(std::int64_t step, std::size_t number, const DrawnSample& sample);
  void show_event(std::int64_t step, const std::string& line);
  void sync() { file_.sync(); }  // to be called before a checkpoint

 private:
  EventFile file_;
};

// Returns the histogram of the numbers that are finite, in buckets of the same width from the smallest to the largest;
// none where there is no such number.
std::optional<Histogram> histogram_of(std::span<const float> numbers);

}  // namespace inkling
