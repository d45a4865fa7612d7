#include "generate/sample_printer.h"

#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "base/system_files.h"

namespace inkling {
namespace {

constexpr std::string_view separator_line = "---------------\n";

// What ends a sample whose prompt and text together are `all`.
std::string_view ending(const std::string& all) { return all.empty() || all.back() != '\n' ? "\n" : ""; }

}  // namespace

bool SamplePrinter::add(std::size_t index, const Sample& sample, std::string_view added, bool finished) {
  Pending& pending = waiting_[index];
  const std::string& prompt = prompts_[sample.prompt];
  if (form_ == SampleForm::json) {
    if (finished) pending.text = json_line(sample);
  } else {
    if (!pending.begun) pending.text = str(index == 0 ? "" : separator_line, prompt);
    pending.text += added;
    if (finished) pending.text += ending(prompt + sample.text);
  }
  pending.begun = true;
  pending.finished = finished;
  print_what_may_be_seen();
  return !reader_gone_;
}

void SamplePrinter::finish(const std::vector<Sample>& samples) {
  for (; next_ < samples.size() && samples[next_].tokens > 0; ++next_) {
    const Sample& sample = samples[next_];
    if (form_ == SampleForm::text) return write(ending(prompts_[sample.prompt] + sample.text));
    write(json_line(sample));
  }
}

void SamplePrinter::print_what_may_be_seen() {
  for (auto first = waiting_.begin(); first != waiting_.end() && first->first == next_;) {
    write(std::exchange(first->second.text, {}));
    if (!first->second.finished) return;
    first = waiting_.erase(first);
    ++next_;
  }
}

std::string SamplePrinter::json_line(const Sample& sample) const {
  const nlohmann::ordered_json line{
      {"prompt", prompts_[sample.prompt]},    {"text", sample.text}, {"tokens", sample.tokens},
      {"finish", finish_name(sample.finish)}, {"seed", seed_},       {"sample", sample.number}};
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

void SamplePrinter::write(std::string_view text) {
  while (!text.empty() && !reader_gone_) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EPIPE) {
      reader_gone_ = true;
    } else if (errno != EINTR) {
      throw Error::environment(str("cannot write to standard output: ", errno_text(errno)));
    }
  }
}

}  // namespace inkling
