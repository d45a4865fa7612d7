#include "train/board.h"

#include <fcntl.h>
#include <unistd.h>

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>

#include "base/files.h"
#include "base/paths.h"
#include "base/strings.h"
#include "base/system_files.h"

namespace inkling {

namespace {

// Returns Markdown that shows the text line by line in the font of code.
std::string as_code(const std::string& text) {
  constexpr std::string_view code = "    ";
  std::string markdown(code);
  for (const char character : text) {
    markdown += character;
    if (character == '\n') markdown += code;
  }
  return markdown + "\n";
}

// Returns Markdown that shows the text as it is, with its line ends and spaces, and lets long lines wrap. What Markdown
// or HTML might take for a sign of theirs is written by its number.
std::string as_prose(const std::string& text) {
  constexpr std::string_view harmless = ",;?'\"/%$@^.:()!";
  std::string markdown;
  char before = '\n';
  for (const char character : text) {
    const bool begins_line = before == '\n';
    const bool is_letter = (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z');
    const bool is_mark = (character >= '0' && character <= '9') || harmless.find(character) != std::string_view::npos;
    if (character == '\n') {
      markdown += begins_line ? "&nbsp;  \n" : "  \n";  // two spaces end a line
    } else if (character == ' ') {
      markdown += begins_line || before == ' ' ? "&nbsp;" : " ";
    } else if (is_letter || static_cast<unsigned char>(character) >= 0x80 || (is_mark && !begins_line)) {
      markdown += character;
    } else {
      markdown += str("&#", static_cast<int>(character), ";");
    }
    before = character;
  }
  return markdown;
}

double mebibytes(std::uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

void add_histogram(SummaryValues& values, const std::string& tag, const at::Tensor& numbers) {
  const at::Tensor host = numbers.to(at::kCPU).contiguous();
  const auto histogram = histogram_of({host.const_data_ptr<float>(), static_cast<std::size_t>(host.numel())});
  if (histogram) values.add_histogram(tag, *histogram);
}

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

constexpr std::size_t buckets = 64;  // TensorBoard draws 30

// Fills in all but the buckets.
Histogram summary_of(std::span<const float> numbers) {
  Histogram all{.smallest = std::numeric_limits<double>::infinity(),
                .largest = -std::numeric_limits<double>::infinity()};
  for (const float number : numbers) {
    if (!std::isfinite(number)) continue;
    const double value = number;
    all.smallest = std::min(all.smallest, value);
    all.largest = std::max(all.largest, value);
    all.count += 1;
    all.sum += value;
    all.sum_of_squares += value * value;
  }
  return all;
}

}  // namespace

void Board::show_settings(std::int64_t step, const std::string& yaml) {
  SummaryValues values;
  values.add_text("settings", as_code(yaml));
  values.add_charts(
      "training",
      {{"loss", {"loss/.*"}}, {"gradient norm", {"gradient_norm/.*"}}, {"weight norm", {"weight_norm/.*"}}});
  file_.append(step, values);
}

void Board::show_step(std::int64_t step, const StepResult& result, const Pace& pace, const MemoryPeaks& memory) {
  SummaryValues values;
  values.add_number("loss/train", result.loss);
  values.add_number("learning_rate", result.learning_rate);
  values.add_number("gradient_norm/all", result.grad_norm);
  values.add_number("throughput/tokens_per_second", pace.tokens_per_second);
  if (pace.mfu > 0) values.add_number("throughput/mfu", pace.mfu);
  values.add_number("memory/process_mib", mebibytes(memory.process));
  values.add_number("memory/training_mib", mebibytes(memory.training));
  file_.append(step, values);
}

void Board::show_norms(std::int64_t step, const std::vector<GroupNorms>& norms) {
  SummaryValues values;
  double all_weights = 0;  // squared
  for (const GroupNorms& group : norms) {
    values.add_number(str("gradient_norm/", group.name), group.gradient);
    values.add_number(str("weight_norm/", group.name), group.weights);
    all_weights += group.weights * group.weights;
  }
  values.add_number("weight_norm/all", std::sqrt(all_weights));
  file_.append(step, values);
}

void Board::show_histograms(std::int64_t step, const ParameterArena& arena) {
  for (const Parameter& parameter : arena.parameters()) {
    SummaryValues values;  // an event for each, so that none is large
    add_histogram(values, str("weights/", parameter.spec.name), parameter.part_of(arena.values()));
    add_histogram(values, str("gradients/", parameter.spec.name), parameter.part_of(arena.gradients()));
    file_.append(step, values);
  }
}

void Board::show_evaluation(std::int64_t step, double train_loss, const ValidationLoss& validation) {
  SummaryValues values;
  values.add_number("loss/train_evaluation", train_loss);
  values.add_number("loss/validation", validation.loss);
  if (validation.of_average) values.add_number("loss/validation_ema", *validation.of_average);
  if (validation.best_possible) values.add_number("loss/best_possible", *validation.best_possible);
  file_.append(step, values);
}

void Board::show_sample(std::int64_t step, std::size_t number, const DrawnSample& sample) {
  SummaryValues values;
  values.add_text(str("sample/", number), as_prose(sample.prompt + sample.text));
  file_.append(step, values);
}

void Board::show_event(std::int64_t step, const std::string& line) {
  SummaryValues values;
  values.add_text("events", as_prose(line));
  file_.append(step, values);
}

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

std::optional<Histogram> histogram_of(std::span<const float> numbers) {
  Histogram all = summary_of(numbers);
  if (all.count == 0) return std::nullopt;
  const double width = (all.largest - all.smallest) / static_cast<double>(buckets);
  if (width == 0) {
    all.limits = {all.largest};
    all.counts = {all.count};
    return all;
  }
  for (std::size_t i = 1; i < buckets; ++i) all.limits.push_back(all.smallest + static_cast<double>(i) * width);
  all.limits.push_back(all.largest);
  std::vector<std::int64_t> counts(buckets, 0);
  for (const float number : numbers) {
    if (!std::isfinite(number)) continue;
    const auto bucket = static_cast<std::size_t>((number - all.smallest) / width);
    ++counts[std::min(bucket, buckets - 1)];
  }
  all.counts.assign(counts.begin(), counts.end());
  return all;
}

}  // namespace inkling
