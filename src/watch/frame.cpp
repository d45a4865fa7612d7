#include "watch/frame.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <iterator>
#include <string>

#include "base/strings.h"

namespace inkling {
namespace {

std::string count_text(std::int64_t count) { return format_count(static_cast<std::uint64_t>(count)); }

std::string loss_text(double loss) { return std::isfinite(loss) ? format_fixed(loss, 4) : "not finite"; }

// Three digits that count: 0.00196, 1.2e-05.
std::string short_number(double value) {
  if (!std::isfinite(value)) return "not finite";
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value, std::chars_format::general, 3);
  return {digits.data(), end.ptr};
}

// Seconds for one step, over the last lines of the log; 0 where that is not known.
double seconds_per_step(const RunLog& log) {
  if (log.steps.empty()) return 0;
  const std::size_t count = std::min<std::size_t>(log.steps.size(), 10);
  const LoggedStep &first = log.steps[log.steps.size() - count], &last = log.steps.back();
  const double seconds = last.step > first.step
                             ? (last.seconds - first.seconds) / static_cast<double>(last.step - first.step)
                             : last.seconds / static_cast<double>(std::max<std::int64_t>(last.step, 1));
  return std::isfinite(seconds) && seconds > 0 ? seconds : 0;
}

double seconds_since_last_line(const RunView& view, double now) {
  return view.last_written > 0 ? std::max(0.0, now - view.last_written) : 0;
}

double seconds_left(const RunView& view, double now) {
  const std::int64_t steps = std::max<std::int64_t>(view.max_steps.value_or(0) - view.log.last_step(), 0);
  return std::max(0.0, seconds_per_step(view.log) * static_cast<double>(steps) - seconds_since_last_line(view, now));
}

std::string how_to_go_on(const RunView& view) {
  return str("go on with: inkling-train ", shell_word(view.name + "/config.yaml"), " --out ", shell_word(view.name));
}

class Frame {
 public:
  Frame(const RunView& view, const FrameForm& form, double now)
      : view_(view), log_(view.log), form_(form), now_(now), utf8_(form.charset == Charset::utf8) {}

  std::vector<TextLine> lines() {
    add_head();
    add_progress();
    add_losses();
    add_events();
    const std::size_t below = form_.live && form_.rows >= 6 ? 1 : 0;
    cut_to(form_.rows - std::min(form_.rows, below));
    add_pictures(form_.rows - below - lines_.size());
    if (below > 0) {
      lines_.resize(form_.rows - 1);
      lines_.push_back({{shortened("q ends; the run goes on", form_.columns, form_.charset), Ink::faint}});
    }
    return std::move(lines_);
  }

 private:
  bool running() const { return view_.state == RunState::running; }
  std::string safe(const std::string& text) const { return printable(text, form_.charset); }

  void cut_to(std::size_t rows) { lines_.resize(std::min(lines_.size(), rows)); }

  void flow(const std::vector<Piece>& pieces) {
    std::vector<TextLine> more = flowed(pieces, form_.columns);
    std::move(more.begin(), more.end(), std::back_inserter(lines_));
  }

  void paragraph(const std::string& text, Ink ink) {
    for (std::string& line : wrapped(text, form_.columns)) lines_.push_back({{std::move(line), ink}});
  }

  void add_head() {
    const std::string name = safe(view_.name);
    switch (view_.state) {
      case RunState::running:
        return flow({{name, Ink::strong}, {"running", Ink::good}});
      case RunState::finished:
        return flow({{name, Ink::strong}, {log_.has_stopped_early() ? "finished early" : "finished", Ink::good}});
      case RunState::stopped:
        flow({{name, Ink::strong}, {"stopped", Ink::bad}});
        return paragraph(safe(how_to_go_on(view_)), Ink::plain);
      case RunState::broken:
        flow({{name, Ink::strong}, {"crashed?", Ink::bad}});
        if (form_.rows >= 12) paragraph(safe("ended without notice: " + view_.holder), Ink::plain);
        return paragraph(safe(how_to_go_on(view_)), Ink::plain);
    }
  }

  // The bar takes what its numbers leave of the line.
  void add_progress() {
    const std::int64_t saved = view_.checkpoints.empty() ? 0 : view_.checkpoints.back();  // which may not be logged
    const std::int64_t step = std::max(log_.last_step(), saved);
    std::vector<Piece> pieces;
    const bool known = view_.max_steps.value_or(0) > 0;
    if (known) {
      const double share = std::min(1.0, static_cast<double>(step) / static_cast<double>(*view_.max_steps));
      const std::string percent = format_fixed(std::floor(100 * share), 0) + " %";
      const std::size_t width = std::min<std::size_t>(form_.columns, 100) - std::min<std::size_t>(form_.columns, 9);
      if (width >= 10) {
        const auto filled = static_cast<std::size_t>(share * static_cast<double>(width));
        lines_.push_back({{"["},
                          {std::string(filled, '#'), Ink::good},
                          {std::string(width - filled, '.'), Ink::faint},
                          {"] " + percent}});
      } else {
        pieces.push_back({percent});
      }
    }
    pieces.push_back({str("step ", count_text(step), known ? "/" + count_text(*view_.max_steps) : "")});
    if (running() && known && seconds_per_step(log_) > 0) {
      pieces.push_back({format_duration(seconds_left(view_, now_)) + " left", Ink::strong});
    }
    add_times(pieces);
    flow(pieces);
  }

  void add_times(std::vector<Piece>& pieces) const {
    if (log_.steps.empty()) {
      pieces.push_back({running() ? "nothing logged yet" : "nothing logged"});
      return;
    }
    const LoggedStep& last = log_.steps.back();
    const double since = seconds_since_last_line(view_, now_);
    if (std::isfinite(last.seconds)) {
      pieces.push_back({format_duration(last.seconds + (running() ? since : 0)) + " so far"});
    }
    if (std::isfinite(last.tokens_per_second)) {
      pieces.push_back(
          {count_text(static_cast<std::int64_t>(std::clamp(last.tokens_per_second, 0.0, 1e18))) + " tokens/s"});
    }
    const double expected = seconds_per_step(log_);
    if (running() && since >= 10 && since > 2 * expected) {
      pieces.push_back({"last line " + format_duration(since) + " ago", Ink::faint});
    }
  }

  void add_losses() {
    std::vector<Piece> pieces;
    if (!log_.steps.empty()) {
      const LoggedStep& last = log_.steps.back();
      pieces.push_back({"loss " + loss_text(last.loss), std::isfinite(last.loss) ? Ink::training : Ink::bad});
    }
    if (!log_.evaluations.empty()) {
      const LoggedEvaluation& last = log_.evaluations.back();
      const LoggedEvaluation* const best = log_.best_evaluation();
      const bool is_best = best != nullptr && best->step == last.step;
      pieces.push_back(
          {str("validation ", loss_text(last.loss), " at step ", count_text(last.step), is_best ? ", the best" : ""),
           Ink::validation});
      if (std::isfinite(last.of_average)) pieces.push_back({"of averaged weights " + loss_text(last.of_average)});
      if (best != nullptr && !is_best) {
        pieces.push_back({str("best ", loss_text(best->loss), " at step ", count_text(best->step))});
      }
      if (std::isfinite(last.best_possible)) {
        std::string bound = "best possible " + loss_text(last.best_possible);
        if (best != nullptr && last.best_possible > 0) {
          bound = str(format_fixed(100 * (best->loss / last.best_possible - 1), 1), " % above the ", bound);
        }
        pieces.push_back({bound, Ink::bound});
      }
    }
    if (form_.rows >= 16 && !log_.steps.empty()) {
      pieces.push_back({"learning rate " + short_number(log_.steps.back().learning_rate)});
      pieces.push_back({"gradient norm " + short_number(log_.steps.back().grad_norm)});
    }
    if (form_.rows >= 16 && !view_.checkpoints.empty())
      pieces.push_back({"checkpoint of step " + count_text(view_.checkpoints.back())});
    flow(pieces);
  }

  void add_events() {
    const LoggedEvaluation* const best = log_.best_evaluation();
    for (const LoggedEvent& event : log_.events) {
      if (event.name == "overfitting" && best != nullptr && best->step > event.step) continue;  // it has ended
      if (event.name == "stopped_early" && !log_.has_stopped_early()) continue;                 // the run went on
      if (event.name == "overfitting") {
        paragraph(str("overfitting: the validation loss has been rising since step ",
                      count_text(event.best_step.value_or(event.step))),
                  Ink::bad);
      } else if (event.name == "stopped_early") {
        paragraph(str("stopped early at step ", count_text(event.step),
                      event.best_step ? str(", best at step ", count_text(*event.best_step)) : ""),
                  Ink::plain);
      } else {
        paragraph(safe(str(event.name, " at step ", count_text(event.step))), Ink::plain);
      }
    }
    if (log_.damaged > 0) {
      paragraph(str(log_.damaged,
                    log_.damaged == 1 ? " line of log.jsonl cannot be read" : " lines of log.jsonl cannot be read"),
                Ink::bad);
    }
  }

  // The sample gets at most a third of the rows.
  void add_pictures(std::size_t rows) {
    std::vector<TextLine> sample = sample_lines();
    if (sample.size() > rows / 3) sample.resize(rows / 3);
    if (sample.size() < 2) sample.clear();
    rows -= sample.size();
    for (TextLine& line : curve_lines(rows)) lines_.push_back(std::move(line));
    for (TextLine& line : sample) lines_.push_back(std::move(line));
  }

  std::vector<TextLine> sample_lines() const {
    if (!log_.sample) return {};
    std::vector<TextLine> lines =
        flowed({{"sample at step " + count_text(log_.sample->step) + ":", Ink::faint}}, form_.columns);
    const std::string text = safe(log_.sample->prompt + log_.sample->text);
    for (std::string& line : wrapped(text, form_.columns)) lines.push_back({{std::move(line)}});
    return lines;
  }

  // The curve with a line that says which is which.
  std::vector<TextLine> curve_lines(std::size_t rows) const {
    if (rows < smallest_curve.rows + 1) return {};
    constexpr std::size_t widest = 200, highest = 40;
    Curve curve;
    for (const LoggedStep& each : log_.steps) curve.training.push_back({each.step, each.loss});
    for (const LoggedEvaluation& each : log_.evaluations) curve.validation.push_back({each.step, each.loss});
    if (!log_.evaluations.empty() && std::isfinite(log_.evaluations.back().best_possible)) {
      curve.best_possible = log_.evaluations.back().best_possible;
    }
    std::vector<TextLine> lines =
        draw_curve(curve, {std::min(form_.columns, widest), std::min(rows - 1, highest)}, form_.charset);
    if (lines.empty()) return lines;
    std::vector<Piece> key{{str(utf8_ ? "⠤" : ".", " training loss"), Ink::training}};
    if (!curve.validation.empty()) key.push_back({"o validation", Ink::validation});
    if (curve.best_possible) key.push_back({str(utf8_ ? "╌" : "-", " best possible"), Ink::bound});
    lines.insert(lines.begin(), flowed(key, form_.columns).front());
    return lines;
  }

  const RunView& view_;
  const RunLog& log_;
  const FrameForm& form_;
  double now_;
  bool utf8_;
  std::vector<TextLine> lines_;
};

}  // namespace

std::vector<TextLine> make_frame(const RunView& view, const FrameForm& form, double now) {
  if (form.columns == 0 || form.rows == 0) return {};
  return Frame(view, form, now).lines();
}

}  // namespace inkling
