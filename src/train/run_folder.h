// Where a run lives, and what it goes on from.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "config/config.h"
#include "config/resume_policy.h"

namespace inkling {

struct TrainOptions {
  std::filesystem::path config_path;
  std::filesystem::path out;      // empty: runs/<the config file's name>
  bool fresh = false;             // start over in a new folder; the old one stays as it is
  bool accept_changes = false;    // resume although settings changed that alter the result
  std::filesystem::path profile;  // empty, or the file for a record of some steps (runtime/profile.h)
  bool dry_run = false;           // check everything, write nothing
};

// A run folder that this process alone holds while the object lives; the file .lock names the holder. A dry run holds
// none.
class RunFolder {
 public:
  // Throws Error input if another process trains in it, saying which, and Error environment if it cannot be made. Warns
  // where the file system has no locks, so that nothing keeps a second process out.
  RunFolder(const std::filesystem::path& path, bool dry_run);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  void hold(const std::filesystem::path& lock);

  std::filesystem::path path_;
  int lock_ = -1;
  bool holds_ = false;
};

// Returns the folder a run would use: --out or runs/<name>; with --fresh the first of it, <name>-2, <name>-3, … that
// does not exist or holds no step of a run. Throws Error input if it is a file.
std::filesystem::path choose_run_folder(const TrainOptions& options);

// What a run goes on from.
struct Resume {
  std::filesystem::path checkpoint;
  TrainingState state;
  std::int64_t max_steps = 0, patience = 0;  // of the settings that it was saved with
};

// Returns none for a new run; `config` is completed by the checkpoint's settings (train/initial_model.h). Throws the
// errors of newest_checkpoint() and check_changes().
std::optional<Resume> find_resume(const std::filesystem::path& run, Config& config, bool accept_changes);

// Compares the settings of the newest checkpoint with those asked for: lists every change on stderr, and throws Error
// input where one needs consent that is not given (--accept-changes) or cannot apply at all (--fresh). `run` is what
// the run made of `auto`.
void check_changes(const Config& before, const Config& after, const Resolved& run, bool accept_changes);

// Returns what to tell of a run that goes on after `step` steps where training.max_steps, which the end of its schedule
// follows, is another one now, so that its next step has another learning rate; "" where it has the same.
std::string describe_new_rates(const Config& before, const Config& after, std::int64_t step);

}  // namespace inkling
