// What a run has reported in its log.jsonl (docs/formats.md), followed while it grows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace inkling {

// A number that the log does not have, or has as null because it was not finite, is NaN.
struct LoggedStep {
  std::int64_t step = 0;
  double loss, learning_rate, grad_norm, tokens_per_second;
  double seconds;  // of training until this step
};

struct LoggedEvaluation {
  std::int64_t step = 0;
  double loss;                                                   // on the validation split, nats per token
  double best_possible;                                          // the lowest that can be expected there
  double of_average = std::numeric_limits<double>::quiet_NaN();  // the loss of the averaged weights
};

struct LoggedSample {
  std::int64_t step = 0;
  std::string prompt, text;
};

struct LoggedEvent {
  std::int64_t step = 0;
  std::string name;                            // "overfitting", "stopped_early"
  std::optional<std::int64_t> best_step = {};  // since when the validation loss has not fallen
};

struct RunLog {
  std::vector<LoggedStep> steps;
  std::vector<LoggedEvaluation> evaluations;
  std::vector<LoggedEvent> events;
  std::optional<LoggedSample> sample;  // the newest
  std::size_t damaged = 0;             // lines that are no JSON object with a step

  std::int64_t last_step() const;  // 0 before the first line
  const LoggedEvaluation* best_evaluation() const;
  bool has_stopped_early() const;

  void add(std::string_view line);  // without its end; fields and kinds of line that are not known are passed over
};

// Reads what has been appended since the last look, and all anew where a resumed run has put another file in its place.
// It only ever reads.
class LogFollower {
 public:
  explicit LogFollower(std::filesystem::path path) : path_(std::move(path)) {}
  ~LogFollower();
  LogFollower(const LogFollower&) = delete;
  LogFollower& operator=(const LogFollower&) = delete;

  // Adds to `log`, which it was given before, and returns whether it has changed. A last line without an end is still
  // being written and waits. No file yet is an empty log. Throws Error input if it is no file, Error environment if it
  // cannot be read.
  bool update(RunLog& log);

  double last_written() const { return last_written_; }  // seconds since 1970; 0 before the first line

 private:
  bool open_again();  // whether another file was opened
  void close();
  void take(std::string_view bytes, RunLog& log);

  std::filesystem::path path_;
  int descriptor_ = -1;  // stays open, so that no other file can get the same number
  std::uint64_t offset_ = 0;
  std::string begun_;  // the last line as far as it has been written
  bool too_long_ = false;
  double last_written_ = 0;
};

// What the files of a run's folder say together: its log, its settings, its checkpoints, and whether it trains.

enum class RunState {
  running,   // a process holds the folder's lock (without locks: the log has grown in the last minute)
  finished,  // the last step of its settings is done and evaluated, or it has stopped early, and that is saved
  stopped,   // it ended in order before that, by a signal or an error that it reported
  broken,    // nobody holds the lock, and who held it never said that it ended: killed, or the machine went down
};

// All that a view shows, as it was at one moment.
struct RunView {
  std::string name = {};  // the folder, as the person names it
  RunState state = RunState::stopped;
  std::string holder = {};                     // "process 4711 on HOST since …", of a run that is running or broken
  std::optional<std::int64_t> max_steps = {};  // none where the settings cannot be read
  std::vector<std::int64_t> checkpoints = {};  // their steps, ascending
  RunLog log = {};
  double last_written = 0;  // seconds since 1970, when the log grew; 0: not yet
};

// Whether the folder holds any of the files of a run.
bool is_run_folder(const std::filesystem::path& folder);

// Looks at a run's folder again and again, without ever writing to it or standing in a run's way.
class RunFiles {
 public:
  // Throws Error input if the folder does not exist or is no run's.
  explicit RunFiles(const std::filesystem::path& folder);

  // Looks again; returns whether anything has changed. Throws Error environment where something cannot be read.
  bool update();
  bool trains();  // looks at the lock alone
  const RunView& view() const { return view_; }

 private:
  struct Stamp {  // of a file: whether it may have changed
    std::int64_t seconds = 0, nanoseconds = 0;
    std::uint64_t inode = 0, size = 0;
    bool operator==(const Stamp&) const = default;
  };
  static Stamp stamp_of(const std::filesystem::path& path);
  RunState state() const;

  std::filesystem::path folder_;
  LogFollower log_;
  RunView view_;
  Stamp settings_, lock_, free_lock_;
  bool locked_ = false;
};

// The run to watch where nobody names one: the only one below `runs` that trains now. Throws Error input where none or
// several do, naming what there is.
std::filesystem::path find_running(const std::filesystem::path& runs);

}  // namespace inkling
