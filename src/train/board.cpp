#include "train/board.h"

#include <ATen/core/Tensor.h>

#include <cmath>
#include <optional>
#include <string_view>

#include "base/strings.h"
#include "train/histogram.h"

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

}  // namespace inkling
