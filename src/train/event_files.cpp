#include "train/event_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <optional>
#include <span>
#include <string_view>

#include "base/files.h"
#include "base/paths.h"
#include "base/strings.h"
#include "base/system_files.h"

namespace inkling {
namespace {

// TensorBoard takes any file with "tfevents" in its name, and reads those of a folder in the order of their names.
constexpr std::string_view name_begin = "events.out.tfevents.", name_end = ".inkling";
constexpr std::size_t digits = 10;  // of the time in seconds since 1970, as other programs write it too

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

// Returns the number in an event file's name; none for every other name.
std::optional<std::int64_t> number_of(std::string_view name) {
  if (name.size() <= name_begin.size() + name_end.size()) return std::nullopt;
  if (!name.starts_with(name_begin) || !name.ends_with(name_end)) return std::nullopt;
  name.remove_prefix(name_begin.size());
  name.remove_suffix(name_end.size());
  return name.size() == digits ? whole_number(name) : std::nullopt;
}

// Returns a name that comes after those of all event files of the run, whatever the clock says.
std::string next_name(const fs::path& run) {
  auto number = static_cast<std::int64_t>(now());
  for (const std::string& name : names_in(run)) {
    if (const auto taken = number_of(name)) number = std::max(number, *taken + 1);
  }
  return str(name_begin, padded(static_cast<std::uint64_t>(number), digits), name_end);
}

// What Board shows behind the numbers of a step, by the beginning of its tag.
constexpr std::array<std::string_view, 3> report_tags = {"loss/train_evaluation", "events", "sample/"};

// Cuts the file off so that the shorter one is on the disk.
void cut_off(const fs::path& path, std::uint64_t bytes) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (file < 0) throw_write_error("write", path, errno);
  const bool is_done = ::ftruncate(file, static_cast<off_t>(bytes)) == 0 && ::fsync(file) == 0;
  const int code = errno;
  ::close(file);
  if (!is_done) throw_write_error("write", path, code);
}

void cut_events(const fs::path& run, std::int64_t steps_done, std::span<const std::string_view> last_tags) {
  for (const std::string& name : names_in(run)) {
    const fs::path path = run / name;
    if (!is_event_file(path)) continue;
    const InputFile file(path);
    const std::uint64_t kept = events_up_to(file, steps_done, last_tags);
    if (kept < file.size()) cut_off(path, kept);
  }
}

}  // namespace

bool is_event_file(const fs::path& file) { return number_of(file.filename().string()).has_value(); }

void drop_events_after(const fs::path& run, std::int64_t steps_done) { cut_events(run, steps_done, {}); }

void drop_reports_from(const fs::path& run, std::int64_t steps_done) { cut_events(run, steps_done, report_tags); }

EventFile::EventFile(const fs::path& run, std::int64_t steps_done) : path_(run / next_name(run)) {
  drop_events_after(run, steps_done);
  file_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (file_ < 0) throw_write_error("write", path_, errno);
  try {
    write(version_event(now()));
    write(restart_event(now(), steps_done + 1));
    sync_folder(run);
  } catch (...) {
    ::close(file_);
    throw;
  }
}

EventFile::~EventFile() { ::close(file_); }

void EventFile::write(const std::string& record) {
  for (std::size_t written = 0; written < record.size();) {
    const ssize_t count = ::write(file_, record.data() + written, record.size() - written);
    if (count < 0 && errno != EINTR) throw_write_error("write", path_, errno);
    written += static_cast<std::size_t>(std::max<ssize_t>(count, 0));
  }
}

void EventFile::append(std::int64_t step, const SummaryValues& values) { write(values_event(now(), step, values)); }

void EventFile::sync() {
  if (::fsync(file_) != 0) throw_write_error("write", path_, errno);
}

}  // namespace inkling
