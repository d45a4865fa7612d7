#include "watch/run_files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "base/error.h"
#include "base/file_errors.h"
#include "base/files.h"
#include "base/paths.h"
#include "base/strings.h"
#include "config/yaml.h"
#include "formats/json_fields.h"

namespace inkling {
namespace {

// Where the file system has no locks, a run counts as running while its log is no older than this.
constexpr std::int64_t seconds_of_silence = 60;

// The runs in a folder, the one that was written to last in front.
std::vector<std::string> runs_in(const fs::path& folder) {
  std::vector<std::pair<fs::file_time_type, std::string>> found;
  std::error_code ignored;
  for (const std::string& name : names_in(folder)) {
    if (!is_folder(folder / name) || !is_run_folder(folder / name)) continue;
    const fs::file_time_type time = fs::last_write_time(folder / name / "log.jsonl", ignored);
    found.emplace_back(ignored ? fs::file_time_type::min() : time, (folder / name).string());
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> runs;
  for (auto& [time, name] : found) runs.push_back(std::move(name));
  return runs;
}

std::string listed(std::vector<std::string> names) {
  constexpr std::size_t shown = 8;
  const bool more = names.size() > shown;
  names.resize(std::min(names.size(), shown));
  return join(names, ", ") + (more ? ", …" : "");
}

// The whole number at training.max_steps. A newer version may have settings that this one does not know, so nothing
// else in the file counts.
std::optional<std::int64_t> max_steps_in(const fs::path& file) {
  try {
    const YamlNode root = parse_yaml(read_small_file(file), file.string());
    const auto find = [](const YamlNode& section, std::string_view key) -> const YamlNode* {
      for (std::size_t i = 0; i < section.keys.size(); ++i) {
        if (section.keys[i].text == key) return &section.items[i];
      }
      return nullptr;
    };
    const YamlNode* const training = find(root, "training");
    const YamlNode* const steps = training == nullptr ? nullptr : find(*training, "max_steps");
    return steps == nullptr ? std::nullopt : whole_number(steps->text);
  } catch (const Error&) {  // missing, or half of it is not what a run writes: the view goes without
    return std::nullopt;
  }
}

std::vector<std::int64_t> checkpoint_steps(const fs::path& run) {
  std::vector<std::int64_t> steps;
  for (const std::string& name : names_in(run / "checkpoints")) {
    if (!name.starts_with("step-")) continue;
    if (const auto step = whole_number(std::string_view(name).substr(5))) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

// Whether a checkpoint says that the last evaluation or samples are left to a later start.
bool has_reports_due(const fs::path& run, std::int64_t step) {
  const fs::path file = run / "checkpoints" / str("step-", padded(static_cast<std::uint64_t>(step), 6)) / "state.json";
  try {
    return JsonFields(file, "").optional_flag("reports_due").value_or(false);
  } catch (const Error&) {  // removed meanwhile, or damaged: the view goes without
    return false;
  }
}

}  // namespace

bool is_run_folder(const fs::path& folder) {
  for (const char* name : {"log.jsonl", "config.yaml", ".lock", "checkpoints"}) {
    if (is_there(folder / name)) return true;
  }
  return false;
}

RunFiles::RunFiles(const fs::path& folder) : folder_(without_slash(folder)), log_(folder_ / "log.jsonl") {
  if (!is_there(folder_)) {
    const auto nearest = nearest_beside(folder_);
    throw Error::input(str(
        folder_.string(), ": there is no such folder",
        nearest ? str("; did you mean ", nearest->string(), "?") : "; give the folder of a run, such as runs/fables"));
  }
  if (!is_folder(folder_)) throw Error::input(str(folder_.string(), " is a file; give the folder of a run"));
  if (!is_run_folder(folder_)) {
    const std::vector<std::string> inside = runs_in(folder_);
    throw Error::input(str(folder_.string(), " is not a run's folder: it holds neither log.jsonl nor config.yaml",
                           inside.empty() ? "" : str("; the runs in it: ", listed(inside))));
  }
  view_.name = folder_.string();
}

RunFiles::Stamp RunFiles::stamp_of(const fs::path& path) {
  struct stat s{};
  if (::stat(path.c_str(), &s) != 0) return {};
  return {s.st_mtim.tv_sec, s.st_mtim.tv_nsec, s.st_ino, static_cast<std::uint64_t>(s.st_size)};
}

// A run writes a line into the lock that it holds, and empties the file when it ends in order. So an empty file is not
// tried, and one that was found free is not tried again before it changes: a run that takes the lock never finds it
// taken by a spectator. Trying a lock that is held takes nothing.
bool RunFiles::trains() {
  const fs::path path = folder_ / ".lock";
  lock_ = stamp_of(path);
  view_.holder.clear();
  const int lock = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (lock < 0) return false;
  if (::flock(lock, LOCK_UN) != 0 && has_no_locks(errno)) {  // gives back what was never taken, so it only asks
    ::close(lock);
    const std::int64_t silence = ::time(nullptr) - stamp_of(folder_ / "log.jsonl").seconds;
    return silence < seconds_of_silence;
  }
  if (lock_.size == 0) {
    ::close(lock);
    return false;
  }
  std::string line(256, '\0');
  line.resize(static_cast<std::size_t>(std::max<ssize_t>(::pread(lock, line.data(), line.size(), 0), 0)));
  view_.holder = line.substr(0, line.find('\n'));
  bool held = false;
  if (!(lock_ == free_lock_)) {
    held = ::flock(lock, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (!held) free_lock_ = lock_;
  }
  ::close(lock);
  return held;
}

RunState RunFiles::state() const {
  if (locked_) return RunState::running;
  const std::int64_t step = view_.log.last_step();
  const bool is_done = view_.log.has_stopped_early() || (view_.max_steps && step >= *view_.max_steps);
  const bool is_saved = !view_.checkpoints.empty() && view_.checkpoints.back() >= step;
  if (is_done && is_saved && !has_reports_due(folder_, view_.checkpoints.back())) return RunState::finished;
  return lock_.size > 0 ? RunState::broken : RunState::stopped;
}

bool RunFiles::update() {
  const RunState before = view_.state;
  const std::vector<std::int64_t> checkpoints_before = std::move(view_.checkpoints);
  locked_ = trains();  // before the log, of which a run that has ended writes no more
  bool changed = log_.update(view_.log);
  view_.last_written = log_.last_written();
  const Stamp settings = stamp_of(folder_ / "config.yaml");
  if (!(settings == settings_)) {
    settings_ = settings;
    view_.max_steps = max_steps_in(folder_ / "config.yaml");
    changed = true;
  }
  view_.checkpoints = checkpoint_steps(folder_);
  view_.state = state();
  return changed || view_.state != before || view_.checkpoints != checkpoints_before;
}

fs::path find_running(const fs::path& runs) {
  const std::vector<std::string> all = runs_in(runs);
  std::vector<std::string> running;
  for (const std::string& run : all) {
    if (RunFiles(run).trains()) running.push_back(run);
  }
  if (running.size() == 1) return running.front();
  if (running.size() > 1) throw Error::input(str("several runs train now; name one: ", listed(running)));
  if (all.empty()) throw Error::input(str("there is no run below ", runs.string(), "/; name the folder of a run"));
  throw Error::input(str("no run below ", runs.string(), "/ trains now; name one, the newest first: ", listed(all)));
}

}  // namespace inkling
