// inkling-sample RUN_OR_CHECKPOINT: writes text that goes on from a prompt.
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <map>
#include <utility>

#include "base/stop_signals.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/generation_config.h"
#include "config/yaml.h"
#include "generate/generator.h"
#include "model_flags.h"
#include "program.h"
#include "text/prompts.h"
#include "text/text_stream.h"

namespace {

using namespace inkling;

constexpr std::string_view separator_line = "---------------\n";

// What ends a sample whose prompt and text together are `all`.
std::string_view ending(const std::string& all) { return all.empty() || all.back() != '\n' ? "\n" : ""; }

enum class SampleForm {
  text,  // the prompt and its continuation; a line of dashes stands between two samples
  json,  // one JSON object a line, once a sample is complete: prompt, text, tokens, finish, seed, sample
};

// Prints samples in their order. The first one that is not complete is printed as it grows; later ones wait. Text is
// printed as soon as it is made, without a buffer. Throws Error environment if it cannot write.
class SamplePrinter {
 public:
  // `prompts` must outlive this.
  SamplePrinter(const std::vector<std::string>& prompts, std::uint64_t seed, SampleForm form)
      : prompts_(prompts), seed_(seed), form_(form) {}

  // Takes what a Watcher is called with. Returns false once nobody reads any more (`| head` has seen enough), which is
  // not an error; whoever calls this must ignore SIGPIPE.
  bool add(std::size_t index, const Sample& sample, std::string_view added, bool finished);

  // After an interruption: ends the samples that were begun and are not complete.
  void finish(const std::vector<Sample>& samples);

 private:
  struct Pending {
    std::string text;  // not printed yet
    bool begun = false, finished = false;
  };

  void write(std::string_view text);
  void print_what_may_be_seen();
  std::string json_line(const Sample& sample) const;

  const std::vector<std::string>& prompts_;
  std::uint64_t seed_;
  SampleForm form_;
  bool reader_gone_ = false;
  std::size_t next_ = 0;  // the first sample not printed to its end
  std::map<std::size_t, Pending> waiting_;
};

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

constexpr int exit_interrupted = 130;  // as a shell shows a program that SIGINT ended

struct Flags {
  ModelFlags model;
  std::vector<std::string> prompts, prompt_files;
  GenerationSettings settings;
  bool special = false;
  bool json = false;
  bool no_cache = false;
};

// A whole number as people write it: no sign, no leading zero that others read as octal.
CLI::Option* add_count(CLI::App& app, const std::string& name, std::uint64_t& value, std::int64_t lowest,
                       const std::string& about) {
  constexpr std::int64_t highest = 1'000'000'000;
  const auto check = [=](const std::string& text) -> std::string {
    const auto number = whole_number(text);
    const bool leading_zero = text.size() > 1 && text[0] == '0';
    if (number && !leading_zero && *number >= lowest && *number <= highest) return {};
    return str("must be a whole number from ", lowest, " to ", highest, ", not ", text);
  };
  return app.add_option(name, value, about)->check(check, "")->type_name("N")->capture_default_str();
}

// Without this check CLI11 would say what it could not convert.
void add_number(CLI::App& app, const std::string& name, SamplingSettings& sampling, double SamplingSettings::* member,
                const std::string& about) {
  const auto check = [=](const std::string& text) -> std::string {
    const auto reading = read_real_number(text);
    if (!reading.value) throw Error::input(str(name, " is ", quote(text), ", which ", reading.problem));
    SamplingSettings alone;
    alone.*member = *reading.value;
    for_flag(name, [&] { check_settings(alone); });
    return {};
  };
  app.add_option(name, sampling.*member, about)->check(check, "")->type_name("X")->capture_default_str();
}

void add_flags(CLI::App& app, Flags& flags) {
  GenerationSettings& settings = flags.settings;
  SamplingSettings& sampling = settings.sampling;
  const auto several = [](CLI::Option* option, const char* type) {
    option->type_name(type)->take_all()->allow_extra_args(false);
  };
  add_model_flags(app, flags.model);
  several(app.add_option("--prompt", flags.prompts, "text to continue; - reads standard input"), "TEXT");
  several(app.add_option("--prompt-file", flags.prompt_files, "a file with the text; its last line end is dropped"),
          "FILE");
  add_count(app, "--count", settings.count, 1, "samples for each prompt");
  add_count(app, "--max-tokens", settings.max_tokens, 1, "most tokens in each sample");
  add_number(app, "--temperature", sampling, &SamplingSettings::temperature,
             "0 always takes the likeliest token, 1 follows the model");
  add_count(app, "--top-k", sampling.top_k, 0, "choose among the N likeliest tokens; 0 is off");
  add_number(app, "--top-p", sampling, &SamplingSettings::top_p,
             "keep the likeliest tokens, up to a total of X; 1 is off");
  add_number(app, "--min-p", sampling, &SamplingSettings::min_p,
             "leave out tokens below X times the likeliest; 0 is off");
  add_number(app, "--repetition-penalty", sampling, &SamplingSettings::repetition_penalty,
             "make tokens of the context less likely; 1 is off");
  several(app.add_option("--stop", settings.stops, "end before this text or special token"), "TEXT");
  add_count(app, "--seed", settings.seed, 0, "of the random draws; the same seed repeats them");
  app.add_flag("--special", flags.special, "read names of special tokens in a prompt as tokens");
  app.add_flag("--ignore-end", settings.ignore_end, "go on in a new line where the model ends a document");
  app.add_flag("--json", flags.json, "print JSON, one object a line: prompt, text and more");
  app.add_flag("--no-cache", flags.no_cache, "encode the context for each token, to check the cache");
  add_runtime_flags(app, flags.model);
}

// What the model's folder says (generation_config.json) is the default of a flag that was not given.
void take_defaults(const CLI::App& app, const GenerationConfig& defaults, GenerationSettings& settings) {
  if (!defaults.refused.empty()) throw Error::input(defaults.refused);
  settings.ends = defaults.ends;
  SamplingSettings& sampling = settings.sampling;
  const auto take = [&](const char* flag, const auto& usual, auto& setting) {
    if (app.count(flag) == 0) setting = usual.or_else(setting);
  };
  take("--temperature", defaults.temperature, sampling.temperature);
  take("--top-k", defaults.top_k, sampling.top_k);
  take("--top-p", defaults.top_p, sampling.top_p);
  take("--min-p", defaults.min_p, sampling.min_p);
  take("--repetition-penalty", defaults.repetition_penalty, sampling.repetition_penalty);
}

int sample(int argc, char** argv) {
  CLI::App app(
      "Generates text that continues a prompt. Without one it reads standard input or, at a terminal, begins a new "
      "document.",
      "inkling-sample");
  app.footer(
      "Example:\n  inkling-sample runs/shakespeare --prompt \"O Romeo\" --count 3 --seed 7\n\n"
      "Order: repetition penalty, temperature, top-k, top-p, min-p. Defaults are those\n"
      "of the model's generation_config.json. Sample n depends on the seed and n.\n"
      "Exit codes: 0 done, 1 internal error, 2 bad input, 3 the machine cannot do it,\n"
      "4 the model outputs NaN, 130 interrupted.");
  Flags flags;
  add_flags(app, flags);
  if (!parse_flags(app, argc, argv)) return 0;
  flags.settings.cache = !flags.no_cache;
  for_flag("--stop", [&] { StopFilter(flags.settings.stops); });
  const fs::path folder = find_checkpoint(flags.model.place, flags.model.checkpoint);
  const LoadedModel model = load_model(folder, flags.model);
  take_defaults(app, read_generation_config(folder, model.model->shape().vocab_size), flags.settings);
  const Tokenizer& tokenizer = require_tokenizer(model);
  const Prompts prompts = read_prompts(flags.prompts, flags.prompt_files, "--prompt");
  flags.settings.names = flags.special ? NamesInPrompt::tokens : NamesInPrompt::text;
  if (!flags.special) hint_at_names(tokenizer, prompts, "--special");
  check_prompts(prompts, [&](const std::string& text) { encode_prompt(tokenizer, text, flags.settings.names); });

  std::signal(SIGPIPE, SIG_IGN);
  const StopInOrder in_order;  // the first Ctrl-C ends the text after the character in hand
  SamplePrinter printer(prompts.texts, flags.settings.seed, flags.json ? SampleForm::json : SampleForm::text);
  const auto watch = [&](std::size_t index, const Sample& text, std::string_view added, bool finished) {
    return printer.add(index, text, added, finished) && !stop_requested();
  };
  const std::vector<Sample> samples = generate(model, prompts.texts, flags.settings, watch);
  printer.finish(samples);
  return stop_requested() ? exit_interrupted : 0;
}

}  // namespace

int main(int argc, char** argv) {
  return inkling::run_program([&] { return sample(argc, argv); });
}
