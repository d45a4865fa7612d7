// What the files of a run's folder say together: its log, its settings, its checkpoints, and whether it trains.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "watch/run_log.h"

namespace inkling {

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
