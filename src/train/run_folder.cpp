#include "train/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/strings.h"

namespace inkling {
namespace {

// Not there, or all that a run leaves which ended before its first step.
bool is_unused(const fs::path& run) {
  std::error_code code;
  if (!fs::exists(run, code)) return true;
  for (const fs::directory_entry& entry : fs::directory_iterator(run, code)) {
    const std::string name = entry.path().filename().string();
    const bool trace = name == ".lock" || name == "config.yaml";
    const bool empty = (name == "checkpoints" || name == "log.jsonl") && fs::is_empty(entry.path(), code);
    if (!trace && !empty) return false;
  }
  return !code;
}

}  // namespace

RunFolder::RunFolder(const std::filesystem::path& path, bool dry_run) : path_(path) {
  if (dry_run) return;
  create_folders(path / "checkpoints");
  const std::filesystem::path lock = path / ".lock";
  lock_ = open(lock.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644);
  if (lock_ < 0) throw Error::environment(str("cannot write in ", path.string(), "; check the folder's permissions"));
  if (flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    close(lock_);
    throw Error::input(
        str("another process is training in ", path.string(), "; stop it first, or choose another folder with --out"));
  }
}

RunFolder::~RunFolder() {
  if (lock_ >= 0) close(lock_);
}

fs::path choose_run_folder(const TrainOptions& options) {
  const fs::path wanted = options.out.empty() ? fs::path("runs") / options.config_path.stem() : options.out;
  std::error_code ignored;
  if (fs::exists(wanted, ignored) && !fs::is_directory(wanted, ignored)) {
    throw Error::input(str(wanted.string(), " is a file; name a folder with --out"));
  }
  if (!options.fresh || is_unused(wanted)) return wanted;
  for (int number = 2;; ++number) {
    const fs::path next = str(wanted.string(), "-", number);
    if (is_unused(next)) return next;
  }
}

void check_changes(const Config& before, const Config& after, bool accept_changes) {
  bool refused = false;
  bool asks = false;
  for (const ConfigChange& change : compare_configs(before, after)) {
    refused |= change.on_resume == OnResume::refuse;
    asks |= change.on_resume == OnResume::ask;
    log_info(str("changed since the checkpoint: ", change.key, ": ", change.before, " -> ", change.after,
                 change.on_resume == OnResume::refuse ? "  (another model or other data)" : ""));
  }
  if (refused) {
    throw Error::input(
        "this run cannot go on with another model or other data (changes above); change the settings "
        "back, or start over beside it with --fresh");
  }
  if (asks && !accept_changes) {
    throw Error::input(
        "the changes above alter the result, so the resumed run would not equal an uninterrupted one; "
        "give --accept-changes to go on all the same, or --fresh to start over beside it");
  }
}

}  // namespace inkling
