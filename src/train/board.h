// What TensorBoard shows of a run, and under which tags. Numbers that are also in log.jsonl are the same.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "model/arena.h"
#include "train/event_files.h"
#include "train/report.h"
#include "train/samples.h"
#include "train/trainer.h"

namespace inkling {

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

}  // namespace inkling
