#include "train/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <ctime>

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/paths.h"
#include "base/strings.h"
#include "base/system_files.h"
#include "config/resume_policy.h"
#include "optim/schedule.h"
#include "train/event_files.h"
#include "train/initial_model.h"

namespace inkling {
namespace {

// Whether the folder does not exist, or holds only what a run leaves that ended before its first step.
bool is_unused(const fs::path& run) {
  if (is_there(run) && !is_folder(run)) return false;
  for (const std::string& name : names_in(run)) {
    const fs::path path = run / name;
    const bool trace = name == ".lock" || name == "config.yaml";
    const bool empty =
        (name == "checkpoints" && names_in(path).empty()) || (name == "log.jsonl" && InputFile(path).size() == 0);
    const bool no_step = is_event_file(path) && events_up_to(InputFile(path), 0) == InputFile(path).size();
    if (!trace && !empty && !no_step) return false;
  }
  return true;
}

// "process 4711 on HOST since 2025-03-01 12:00:00 UTC", for whoever finds the folder locked.
std::string describe_this_process() {
  char host[256] = "";
  if (::gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  char since[32] = "";
  std::strftime(since, sizeof since, "%Y-%m-%d %H:%M:%S UTC", &utc);
  return str("process ", ::getpid(), " on ", host, " since ", since);
}

// What the holder wrote, as far as it can be shown in a line: " (process …)", or nothing.
std::string describe_holder(int lock) {
  char text[512];
  const ssize_t length = ::pread(lock, text, sizeof text, 0);
  std::string line(text, static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
  line.resize(std::min(line.find('\n'), line.size()));
  const bool shown =
      !line.empty() && std::all_of(line.begin(), line.end(), [](char c) { return c >= ' ' && c <= '~'; });
  return shown ? str(" (", line, ")") : "";
}

// Returns errno, 0 for success.
int take_lock(int lock) {
  while (::flock(lock, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

// To write what `auto` came to is no change.
std::vector<ConfigChange> find_changes(const Config& before, const Config& after, const Resolved& run) {
  std::vector<ConfigChange> changes = compare_configs(before, after);
  const std::vector<ConfigChange> meant = compare_configs(without_auto(before, run), without_auto(after, run));
  std::erase_if(changes, [&](const ConfigChange& change) {
    return std::none_of(meant.begin(), meant.end(), [&](const auto& other) { return other.key == change.key; });
  });
  return changes;
}

}  // namespace

RunFolder::RunFolder(const fs::path& path, bool dry_run) : path_(path) {
  if (dry_run) return;
  create_folders(path / "checkpoints");
  const fs::path lock = path / ".lock";
  lock_ = ::open(lock.c_str(), O_CREAT | O_RDWR | O_CLOEXEC | O_NONBLOCK, 0644);
  if (lock_ < 0) throw_write_error("open", lock, errno);
  try {
    hold(lock);
  } catch (...) {
    ::close(lock_);
    throw;
  }
}

void RunFolder::hold(const fs::path& lock) {
  const int code = take_lock(lock_);
  if (code == EWOULDBLOCK) {
    throw Error::input(str("another process is training in ", path_.string(), describe_holder(lock_),
                           "; stop it first, or choose another folder with --out"));
  }
  if (has_no_locks(code)) {
    log_warning(str("the file system of ", path_.string(), " has no locks (", errno_text(code),
                    "), so nothing keeps a second process from training there; see to it that none does"));
    return;
  }
  if (code != 0) throw_write_error("lock", lock, code);
  holds_ = true;
  // Only the message above needs this line. If the disk is too full for it, whatever is written next reports that.
  const std::string line = describe_this_process() + "\n";
  [[maybe_unused]] const int emptied = ::ftruncate(lock_, 0);
  [[maybe_unused]] const ssize_t written = ::pwrite(lock_, line.data(), line.size(), 0);
}

RunFolder::~RunFolder() {
  if (lock_ < 0) return;
  [[maybe_unused]] const int emptied = holds_ ? ::ftruncate(lock_, 0) : 0;
  ::close(lock_);
}

fs::path choose_run_folder(const TrainOptions& options) {
  fs::path wanted = options.out.empty() ? fs::path("runs") / options.config_path.stem() : options.out;
  if (is_there(wanted) && !is_folder(wanted)) {
    throw Error::input(str(wanted.string(), " is a file; name a folder with --out"));
  }
  if (!options.fresh || is_unused(wanted)) return wanted;
  for (int number = 2;; ++number) {
    fs::path next = str(wanted.string(), "-", number);
    if (is_unused(next)) return next;
  }
}

std::optional<Resume> find_resume(const fs::path& run, Config& config, bool accept_changes) {
  const std::optional<fs::path> newest = newest_checkpoint(run);
  if (!newest) return std::nullopt;
  Config before = load_kept_config(*newest / "config.yaml", {});
  const TrainingState state = load_state(*newest);
  // Older versions wrote the batch size where auto stands now.
  const bool was_whole = before.training.micro_batch_size == before.training.batch_size;
  if (state.resolved.micro_batch_size == 0 && !config.training.micro_batch_size && was_whole) {
    before.training.micro_batch_size.reset();
  }
  if (config.model.init_from) config = inherit_settings(std::move(config), before);
  check_changes(before, config, state.resolved, accept_changes);
  if (const std::string rates = describe_new_rates(before, config, state.step); !rates.empty()) log_warning(rates);
  return Resume{*newest, state, before.training.max_steps, before.training.stop_when.patience};
}

void check_changes(const Config& before, const Config& after, const Resolved& run, bool accept_changes) {
  bool refused = false;
  bool asks = false;
  for (const ConfigChange& change : find_changes(before, after, run)) {
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

std::string describe_new_rates(const Config& before, const Config& after, std::int64_t step) {
  const std::int64_t end = before.training.max_steps;
  if (before.schedule.decay_steps || after.schedule.decay_steps || step == 0) return "";
  ScheduleConfig old = after.schedule;
  old.decay_steps = end;
  const double kept = learning_rate(step, after.optimizer, old, end);
  const double changed = learning_rate(step, after.optimizer, after.schedule, after.training.max_steps);
  if (kept == changed) return "";
  const auto shown = [](double rate) { return format_shortest(std::round(rate * 1e8) / 1e8); };
  return str("step ", format_count(static_cast<std::uint64_t>(step) + 1), " has the learning rate ", shown(changed),
             ", and would have had ", shown(kept), ": the schedule ends at training.max_steps, and is stretched from ",
             end, " to ", after.training.max_steps, " steps with it; --set schedule.decay_steps=", end,
             " keeps the old one");
}

}  // namespace inkling
