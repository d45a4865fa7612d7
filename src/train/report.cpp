#include "train/report.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/paths.h"
#include "base/strings.h"
#include "base/system_files.h"
#include "base/terminal_text.h"
#include "formats/json.h"
#include "train/board.h"

namespace inkling {
namespace {

using Json = nlohmann::ordered_json;  // writes null for a loss or norm that is not finite

// A line that is cut off or not ours belongs to no step. reports: whether what is reported behind that step counts too.
bool is_of_step_up_to(const std::filesystem::path& path, const std::string& line, std::int64_t steps_done,
                      bool reports) {
  try {
    const JsonFields fields(path, line, "");
    const auto last = static_cast<std::uint64_t>(steps_done);
    return fields.count("step", last) < last || reports || fields.has("loss") || fields.is_null("loss");
  } catch (const Error&) {
    return false;
  }
}

void drop_lines_after(const std::filesystem::path& path, std::int64_t steps_done, bool reports) {
  if (!is_there(path)) return;
  const std::string text = InputFile(path).read_all();
  std::istringstream lines(text);
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    if (is_of_step_up_to(path, line, steps_done, reports)) kept += line + "\n";
  }
  if (kept != text) write_file(path, kept);
}

// Returns the text with its later lines indented, without empty ones at its end and without what would steer a
// terminal: a model may write anything.
std::string for_terminal(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  std::istringstream lines(text);
  std::string shown;
  for (std::string line; std::getline(lines, line);) {
    shown += (shown.empty() ? "" : "\n    ") + printable(line, Charset::utf8);
  }
  return shown;
}

}  // namespace

void drop_reports_from_log(const std::filesystem::path& log, std::int64_t steps_done) {
  drop_lines_after(log, steps_done, false);
}

Report::Report(const std::filesystem::path& log, std::int64_t steps_done, std::int64_t max_steps,
               double flops_per_token, double peak_flops, Board* board)
    : path_(log),
      max_steps_(max_steps),
      flops_per_token_(flops_per_token),
      peak_flops_(peak_flops),
      board_(board),
      since_(std::chrono::steady_clock::now()) {
  if (path_.empty()) return;
  drop_lines_after(log, steps_done, true);
  log_ = ::open(log.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (log_ < 0) throw_write_error("write", log, errno);
  sync_folder(log.parent_path());
  if (stderr_is_terminal())
    bar_.emplace("training", static_cast<std::uint64_t>(max_steps), "steps", static_cast<std::uint64_t>(steps_done));
}

Report::~Report() {
  if (log_ >= 0) ::close(log_);
  if (bar_) bar_->clear();
}

void Report::say(const std::string& line) {
  if (bar_) bar_->clear();
  log_info(line);
}

void Report::append(const std::string& json_line) {
  if (path_.empty()) return;
  const std::string line = json_line + "\n";
  for (std::size_t written = 0; written < line.size();) {
    const ssize_t count = ::write(log_, line.data() + written, line.size() - written);
    if (count < 0 && errno != EINTR) throw_write_error("write", path_, errno);
    written += static_cast<std::size_t>(std::max<ssize_t>(count, 0));
  }
}

void Report::sync() {
  if (::fsync(log_) != 0) throw_write_error("write", path_, errno);
  if (board_ != nullptr) board_->sync();
}

void Report::step_done(std::int64_t step, std::int64_t tokens) {
  tokens_since_ += tokens;
  ++steps_since_;
  if (bar_) bar_->update(static_cast<std::uint64_t>(step));
}

Pace Report::log_step(std::int64_t step, const StepResult& result, double total_seconds) {
  const auto now = std::chrono::steady_clock::now();
  const double seconds = std::chrono::duration<double>(now - since_).count();
  const double tokens_per_second = static_cast<double>(tokens_since_) / seconds;
  const double mfu = peak_flops_ > 0 ? tokens_per_second * flops_per_token_ / peak_flops_ : 0.0;
  seconds_per_step_ = seconds / static_cast<double>(steps_since_);
  since_ = now;
  tokens_since_ = 0;
  steps_since_ = 0;

  std::string line = str("step ", step, "/", max_steps_, "  loss ", format_fixed(result.loss, 4), "  lr ",
                         format_shortest(std::round(result.learning_rate * 1e8) / 1e8), "  grad norm ",
                         format_fixed(result.grad_norm, 2), "  ",
                         format_count(static_cast<std::uint64_t>(tokens_per_second)), " tokens/s");
  if (mfu > 0) line += str("  MFU ", format_fixed(100 * mfu, 1), " %");
  line += str("  ", format_duration(total_seconds), " elapsed, ",
              format_duration(seconds_per_step_ * static_cast<double>(max_steps_ - step)), " left");
  if (result.skipped) line += "  (skipped: the gradient is not finite)";
  say(line);

  const Pace pace = {.tokens_per_second = std::round(tokens_per_second), .mfu = std::round(mfu * 10000) / 10000};
  Json json = {{"step", step},
               {"loss", result.loss},
               {"learning_rate", result.learning_rate},
               {"grad_norm", result.grad_norm},
               {"tokens_per_second", pace.tokens_per_second},
               {"seconds", std::round(total_seconds * 1000) / 1000}};
  if (mfu > 0) json["mfu"] = pace.mfu;
  append(json.dump());
  return pace;
}

void Report::log_evaluation(std::int64_t step, double train_loss, const ValidationLoss& validation, bool is_best) {
  std::string line = str("step ", step, "/", max_steps_, "  evaluation: train loss ", format_fixed(train_loss, 4),
                         ", val loss ", format_fixed(validation.loss, 4));
  Json json = {{"step", step}, {"train_loss", train_loss}, {"val_loss", validation.loss}};
  if (validation.of_average) {
    line += str(", with averaged weights ", format_fixed(*validation.of_average, 4));
    json["ema_val_loss"] = *validation.of_average;
  }
  if (validation.best_possible) {
    const double best = *validation.best_possible;
    line += str(", best possible ", format_fixed(best, 4), " (", format_fixed(100 * (validation.loss / best - 1), 1),
                " % above)");
    json["best_possible_loss"] = best;
  }
  say(line + (is_best ? "  (best so far)" : ""));
  append(json.dump());
  if (board_ != nullptr) board_->show_evaluation(step, train_loss, validation);
}

void Report::log_samples(std::int64_t step, const DrawnSamples& drawn, std::uint64_t seed) {
  if (!drawn.why_none.empty()) say(str("step ", step, ": no sample, because ", drawn.why_none));
  for (std::size_t i = 0; i < drawn.samples.size(); ++i) {
    const DrawnSample& sample = drawn.samples[i];
    say(str("step ", step, "/", max_steps_, "  sample: ", for_terminal(sample.prompt + sample.text)));
    append(
        Json({{"step", step}, {"sample", {{"prompt", sample.prompt}, {"text", sample.text}, {"seed", seed}}}}).dump());
    if (board_ != nullptr) board_->show_sample(step, i + 1, sample);
  }
}

void Report::log_overfitting(const TrainingState& state) {
  const std::string line =
      str("overfitting: the validation loss has risen since step ", state.best_step, " (",
          format_fixed(*state.best_val_loss, 4), "), while the training loss fell; more text, a smaller model or more ",
          "model.dropout helps, and training.stop_when.patience ends such a run");
  say(str("step ", state.step, "/", max_steps_, "  ", line));
  append(Json({{"step", state.step}, {"event", "overfitting"}, {"since", state.best_step}}).dump());
  if (board_ != nullptr) board_->show_event(state.step, line);
}

void Report::log_early_stop(const TrainingState& state) {
  const std::string line = str("stops early: ", describe_standstill(state), " (training.stop_when.patience)");
  say(str("step ", state.step, "/", max_steps_, "  ", line));
  Json json = {{"step", state.step}, {"event", "stopped_early"}, {"best_step", state.best_step}};
  json["best_val_loss"] = state.best_val_loss ? Json(*state.best_val_loss) : Json();
  append(json.dump());
  if (board_ != nullptr) board_->show_event(state.step, line);
}

std::string describe_standstill(const TrainingState& state) {
  const std::int64_t count = state.evaluations_since_best;
  const std::string evaluations = count == 1 ? "in the last evaluation" : str("in ", count, " evaluations");
  if (!state.best_val_loss) return str("no validation loss was finite ", evaluations);
  return str("the validation loss has not improved ", evaluations, ", since ", format_fixed(*state.best_val_loss, 4),
             " at step ", state.best_step);
}

}  // namespace inkling
