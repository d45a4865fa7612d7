#include "watch/run_log.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <ctime>
#include <limits>

#include "base/error.h"
#include "base/files.h"
#include "base/paths.h"
#include "base/strings.h"
#include "base/system_files.h"
#include "config/yaml.h"
#include "formats/json.h"

namespace inkling {
namespace {

using Json = nlohmann::json;

constexpr std::size_t longest_line = std::size_t{16} << 20;  // bytes; a longer one is no line of a log

double number_in(const Json& line, const char* name) {
  const auto field = line.find(name);
  return field != line.end() && field->is_number() ? field->get<double>() : std::numeric_limits<double>::quiet_NaN();
}

std::optional<std::int64_t> step_in(const Json& line, const char* name) {
  const auto field = line.find(name);
  if (field == line.end() || !field->is_number_unsigned()) return std::nullopt;
  const auto step = field->get<std::uint64_t>();
  return step <= INT64_MAX ? std::optional(static_cast<std::int64_t>(step)) : std::nullopt;
}

std::string text_in(const Json& object, const char* name) {
  const auto field = object.find(name);
  return field != object.end() && field->is_string() ? field->get<std::string>() : std::string();
}

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

std::int64_t RunLog::last_step() const {
  const std::int64_t trained = steps.empty() ? 0 : steps.back().step;
  return std::max(trained, evaluations.empty() ? 0 : evaluations.back().step);
}

const LoggedEvaluation* RunLog::best_evaluation() const {
  const LoggedEvaluation* best = nullptr;
  for (const LoggedEvaluation& each : evaluations) {
    if (std::isfinite(each.loss) && (best == nullptr || each.loss < best->loss)) best = &each;
  }
  return best;
}

bool RunLog::has_stopped_early() const {
  return !events.empty() && events.back().name == "stopped_early" && events.back().step >= last_step();
}

void RunLog::add(std::string_view line) {
  const Json json = Json::parse(line, nullptr, false);
  const std::optional<std::int64_t> step = json.is_object() ? step_in(json, "step") : std::nullopt;
  if (!step) {
    ++damaged;
  } else if (json.contains("val_loss")) {
    evaluations.push_back(
        {*step, number_in(json, "val_loss"), number_in(json, "best_possible_loss"), number_in(json, "ema_val_loss")});
  } else if (json.contains("loss")) {
    steps.push_back({*step, number_in(json, "loss"), number_in(json, "learning_rate"), number_in(json, "grad_norm"),
                     number_in(json, "tokens_per_second"), number_in(json, "seconds")});
  } else if (const auto found = json.find("sample"); found != json.end() && found->is_object()) {
    sample = LoggedSample{*step, text_in(*found, "prompt"), text_in(*found, "text")};
  } else if (const std::string event = text_in(json, "event"); !event.empty()) {
    const std::optional<std::int64_t> since = step_in(json, "since");
    events.push_back({*step, event, since ? since : step_in(json, "best_step")});
  }
}

LogFollower::~LogFollower() { close(); }

void LogFollower::close() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

bool LogFollower::open_again() {
  struct stat there{}, mine{};
  if (::stat(path_.c_str(), &there) != 0) {
    if (errno != ENOENT && errno != ENOTDIR) throw_read_error(path_, errno);
    return false;  // nothing yet; or the folder has gone, and what was read stays
  }
  if (!S_ISREG(there.st_mode)) throw Error::input(str(path_.string(), " is not a file; give a run's folder"));
  if (descriptor_ >= 0) {
    if (::fstat(descriptor_, &mine) != 0) throw_read_error(path_, errno);
    const bool same = mine.st_ino == there.st_ino && mine.st_dev == there.st_dev;
    if (same && static_cast<std::uint64_t>(mine.st_size) >= offset_) return false;
  }
  close();
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) throw_read_error(path_, errno);
  offset_ = 0;
  begun_.clear();
  too_long_ = false;
  return true;
}

bool LogFollower::update(RunLog& log) {
  bool changed = open_again();
  if (changed) log = {};
  if (descriptor_ < 0) return changed;
  std::string block(std::size_t{1} << 18, '\0');
  while (true) {
    const ssize_t count = ::pread(descriptor_, block.data(), block.size(), static_cast<off_t>(offset_));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_read_error(path_, errno);
    if (count == 0) break;
    offset_ += static_cast<std::uint64_t>(count);
    take(std::string_view(block).substr(0, static_cast<std::size_t>(count)), log);
    changed = true;
  }
  struct stat now{};
  if (changed && ::fstat(descriptor_, &now) == 0) {
    last_written_ = static_cast<double>(now.st_mtim.tv_sec) + 1e-9 * static_cast<double>(now.st_mtim.tv_nsec);
  }
  return changed;
}

void LogFollower::take(std::string_view bytes, RunLog& log) {
  for (std::size_t end; (end = bytes.find('\n')) != std::string_view::npos; bytes.remove_prefix(end + 1)) {
    begun_ += bytes.substr(0, end);
    if (too_long_) {
      ++log.damaged;
    } else if (!begun_.empty()) {
      log.add(begun_);
    }
    begun_.clear();
    too_long_ = false;
  }
  begun_ += bytes;
  if (begun_.size() > longest_line) too_long_ = true;
  if (too_long_) begun_.clear();
}

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
