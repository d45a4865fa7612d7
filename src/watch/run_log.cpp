#include "watch/run_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file_errors.h"
#include "base/strings.h"

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

}  // namespace inkling
