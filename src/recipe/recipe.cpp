#include "recipe/recipe.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numbers>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/paths.h"
#include "base/stop_signals.h"
#include "base/strings.h"
#include "checkpoint/model_weights.h"
#include "data/windows.h"
#include "doctor/forecast.h"
#include "evaluate/validation.h"
#include "model/parameters.h"
#include "recipe/candidates.h"
#include "recipe/law.h"
#include "recipe/text_sample.h"
#include "runtime/cpu_memory.h"
#include "runtime/device.h"
#include "train/run_folder.h"
#include "train/start.h"
#include "train/trainer.h"

namespace inkling::recipe {
namespace {

// What a byte-level BPE may learn. Shorter texts are spelled by characters: in a minute 225 KB of Italian come to 2.11
// bits per byte by them, to 2.18 by 320 tokens and to 2.21 by 512, but tiny Shakespeare to 2.15 and 2.09 by 512.
constexpr std::array<std::uint64_t, 5> vocabularies{512, 1024, 2048, 4096, 8192};
constexpr double short_text = 5e5;  // bytes
constexpr std::array<std::int64_t, 4> contexts{256, 128, 64, 32};

constexpr std::string_view recipe_program = "inkling-recipe", set_flag = " --set ";

// A comment is one line, whatever a file is called.
std::string in_one_line(std::string text) {
  std::replace_if(text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return text;
}

// The command that asks for a recipe, settings last.
std::string command_of(const Request& request) {
  std::string command(recipe_program);
  for (const std::string& text : request.text) command += " " + shell_word(text);
  command += " --minutes " + format_shortest(request.minutes);
  if (request.memory_gib) command += " --memory " + format_shortest(*request.memory_gib);
  if (request.tokenizer) command += " --tokenizer " + shell_word(*request.tokenizer);
  if (request.context) command += str(" --context ", *request.context);
  if (request.device) command += " --device " + device_text(*request.device);
  if (request.like) command += " --like " + shell_word(*request.like);
  for (const std::string& setting : request.overrides) command += str(set_flag, shell_word(setting));
  return in_one_line(command);
}

// The kinds of tokenizers that may be chosen, with the sizes that a byte-level BPE may learn.
std::vector<TokenizerConfig> tokenizers_for(const Request& request, const TextSample& sample) {
  const bool is_short = static_cast<double>(sample.bytes) < short_text;
  const std::string asked = request.tokenizer.value_or(!sample.not_utf8.empty() ? "byte" : is_short ? "char" : "");
  if (asked == "byte") return {{.kind = TokenizerKind::byte}};
  if (asked == "char") return {{.kind = TokenizerKind::character}};
  std::vector<TokenizerConfig> all;
  if (asked.empty()) {
    for (const std::uint64_t size : vocabularies) all.push_back({.kind = TokenizerKind::bpe, .vocab_size = size});
    return all;
  }
  Config config;
  set_setting(config, "data.tokenizer.vocab_size", asked, "--tokenizer");
  return {{.kind = TokenizerKind::bpe, .vocab_size = config.data.tokenizer.vocab_size}};
}

// The run as inkling-train would plan it, with what it sets for the process.
doctor::ExpectedRun plan_for(const Config& config, const DeviceChoice& device, std::uint64_t vocab_size) {
  doctor::ExpectedRun run = doctor::expect_run(config, device, vocab_size);
  if (!run.why_not.empty()) throw Error::environment(run.why_not);
  return run;
}

// Returns the median of the seconds that a step takes, with random tokens, measured for about `most_seconds`. Steps
// that are expected to take very long are made with fewer windows.
double time_step(const Config& config, const DeviceChoice& device, std::uint64_t vocab_size, double expected,
                 double most_seconds) {
  constexpr double longest_step = 2;
  leave_if_stopped();
  const doctor::ExpectedRun run = plan_for(config, device, vocab_size);
  doctor::Forecast forecast;
  if (expected > longest_step) {
    forecast.step_seconds = expected;
    most_seconds = 3 * longest_step;
  }
  doctor::measure_run(run, forecast, most_seconds);
  return forecast.measured_step.value();
}

StepClock clock_of(const DeviceChoice& device) {
  return [device](const Config& config, std::uint64_t vocab_size, double expected) {
    return time_step(config, device, vocab_size, expected, 0.5);
  };
}

// Trains a model on the sample and returns its bits per byte of what is held out. Batches of one window cannot be
// shared out, and threads that share its products would wait for each other, minutes beside other programs.
double try_out(Config config, const DeviceChoice& device, const SpelledSample& sample, std::uint64_t held_out_bytes) {
  if (config.training.batch_size == 1) config.runtime.threads = 1;
  const doctor::ExpectedRun run = plan_for(config, device, sample.vocab_size);
  resolve_runtime(config.runtime);
  reuse_cpu_memory();
  const TokenSequence training = doctor::passing_tokens(sample.vocab_size, sample.training);
  const TokenSequence held_out = doctor::passing_tokens(sample.vocab_size, sample.held_out);
  const TrainingWindows windows(
      training, {.seed = config.training.seed, .block_size = static_cast<std::uint64_t>(run.shape.block_size)});
  Trainer trainer(run.config, run.shape, run.runtime);
  initialize(trainer.arena(), run.shape, config.training.seed, config.model.initialization);
  for (std::int64_t step = 0; step < config.training.max_steps; ++step) {
    leave_if_stopped();
    trainer.step(step, windows);
  }
  double nats = 0;
  for (const ScoredPiece& piece : score_windows(trainer.model(), run.runtime, held_out)) nats += piece.nats;
  give_back_cpu_memory();
  return nats / std::numbers::ln2 / static_cast<double>(held_out_bytes);
}

// A text, as far as it decides what is chosen.
struct Looked {
  TextSample sample;
  std::vector<SpelledSample> spelled;  // by the vocabularies that may be chosen
  Question question;
};

Vocabulary vocabulary_of(TokenizerKind kind, const SpelledSample& spelled) {
  return {.kind = kind, .size = spelled.vocab_size, .bytes_per_token = spelled.bytes_per_token};
}

// The sample by so many tokens, if it has enough for them: as it was spelled for the choice, if so many are among that.
std::optional<SpelledSample> spelled_by(const Looked& looked, std::uint64_t vocab_size) {
  for (const SpelledSample& spelled : looked.spelled) {
    if (spelled.vocab_size == vocab_size) return spelled;
  }
  return spell(looked.sample, {.kind = TokenizerKind::bpe, .vocab_size = vocab_size});
}

// How hard the text is: what a small model, always the same, comes to. It sees a short text in smaller steps, so that
// it does not learn it by heart.
Hardness try_out_text(const Looked& looked) {
  constexpr double most_epochs = 2.7;
  const Question& question = looked.question;
  const Vocabulary& first = question.vocabularies.front();
  const bool learned = first.kind == TokenizerKind::bpe;
  const auto bits_of = [&](Candidate& small, const SpelledSample& spelled, std::int64_t steps) {
    small.vocabulary = vocabulary_of(first.kind, spelled);
    small.steps = steps;
    return try_out(settings_of(small, question), question.device, spelled, looked.sample.held_out.size());
  };
  const SpelledSample spelled =
      learned ? spelled_by(looked, std::min(first.size, vocab_size_tried_out)).value() : looked.spelled.front();
  Candidate small = {.vocabulary = {}, .n_layer = 2, .n_embd = 64, .block_size = 128, .batch_size = 8};
  const auto seen = [&] { return static_cast<double>(small.block_size * small.batch_size * steps_tried_out); };
  while (small.block_size > 16 && seen() > most_epochs * static_cast<double>(spelled.training.size())) {
    (small.batch_size > 1 ? small.batch_size : small.block_size) /= 2;
  }
  Hardness text = question.text;
  text.bits = bits_of(small, spelled, steps_tried_out);
  text.tried_out = planned(small);
  if (!learned || question.vocabularies.back().size <= vocab_size_tried_out) return text;
  if (const auto larger = spelled_by(looked, larger_vocab_size_tried_out)) {
    const double by_fewer = bits_of(small, spelled, fewer_steps_tried_out);
    text.by_more_tokens = bits_of(small, *larger, fewer_steps_tried_out) / by_fewer;
  }
  return text;
}

// Spells the sample by the tokenizers that may be chosen.
void spell_sample(const Request& request, Looked& looked) {
  const auto add = [&](TokenizerKind kind, SpelledSample spelled) {
    looked.question.vocabularies.push_back(vocabulary_of(kind, spelled));
    looked.spelled.push_back(std::move(spelled));
  };
  for (const TokenizerConfig& tokenizer : tokenizers_for(request, looked.sample)) {
    if (auto spelled = spell(looked.sample, tokenizer)) add(tokenizer.kind, *std::move(spelled));
  }
  if (!looked.spelled.empty()) return;
  if (request.tokenizer) {
    throw Error::input(str("--tokenizer ", *request.tokenizer,
                           ": the text holds too little to learn so many tokens from; ask for fewer, or for byte"));
  }
  add(TokenizerKind::character, spell(looked.sample, {.kind = TokenizerKind::character}).value());
}

bool is_in(const std::vector<std::string_view>& sections, const std::string& setting) {
  return std::any_of(sections.begin(), sections.end(),
                     [&](std::string_view section) { return setting.starts_with(section); });
}

// Returns the settings that the text is read and the machine is measured by; those of a model and its training wait for
// the recipe that they change. Throws Error input for what is no setting or no value of it.
Config read_and_measured_by(const std::vector<std::string>& overrides) {
  static_cast<void>(overridden({}, overrides));
  std::vector<std::string> some;
  for (const std::string& setting : overrides) {
    if (is_in({"data.source", "data.tokenizer."}, setting)) {
      throw Error::input(str("--set ", setting, ": a recipe is for the text in front, by characters, bytes or tokens ",
                             "that it learns (--tokenizer); for others write a configuration"));
    }
    if (is_in({"data.", "runtime."}, setting)) some.push_back(setting);
  }
  return defaults_with(some);
}

// A text that is not UTF-8 is one of bytes.
void note_encoding(const Request& request, const TextSample& sample) {
  if (sample.not_utf8.empty() || request.like || request.tokenizer == "byte") return;
  if (request.tokenizer) {
    throw Error::input(str(sample.not_utf8, ": not UTF-8, which --tokenizer ", *request.tokenizer,
                           " needs: convert the text (iconv does), or ask for --tokenizer byte"));
  }
  log_warning(str(sample.not_utf8,
                  ": not UTF-8, so the text is learned byte by byte; converted (iconv does) it would be "
                  "learned better"));
}

Looked look_at(const Request& request) {
  Looked looked;
  Config& asked = looked.question.asked;
  asked = read_and_measured_by(request.overrides);
  asked.data.source = request.text;
  if (request.tokenizer == "byte") asked.data.tokenizer.kind = TokenizerKind::byte;
  if (request.device) asked.runtime.device = request.device;
  if (request.memory_gib) asked.runtime.memory_limit_gib = request.memory_gib;
  looked.sample = sample_text(asked.data);
  note_encoding(request, looked.sample);
  asked.data.val_fraction = looked.sample.val_fraction;
  asked.model.init_from = request.like;
  if (request.like && request.context) set_setting(asked, "model.block_size", str(*request.context), "--context");
  if (!request.like) spell_sample(request, looked);
  looked.question.device = resolved_from(choose_runtime(asked.runtime)).device;
  looked.question.seconds = 60 * request.minutes;
  looked.question.contexts =
      request.context ? std::vector{*request.context} : std::vector<std::int64_t>(contexts.begin(), contexts.end());
  looked.question.text.training_bytes = (1 - looked.sample.val_fraction) * static_cast<double>(looked.sample.bytes);
  if (looked.sample.not_utf8.empty()) {
    looked.question.text.bytes_per_character =
        static_cast<double>(looked.sample.held_out.size()) /
        static_cast<double>(std::max<std::uint64_t>(1, count_characters(looked.sample.held_out)));
  }
  looked.question.tail_bytes = looked.sample.val_fraction * static_cast<double>(looked.sample.bytes);
  return looked;
}

// "book.txt: 1.1 MiB".
std::string describe_sources(const Request& request, const TextSample& sample) {
  return str(in_one_line(names_of(request.text)), ": ", sample.is_estimated ? "about " : "",
             format_bytes(sample.bytes));
}

struct Chosen {
  Candidate best;
  std::vector<Candidate> candidates;
  std::string start;  // what is known before: "a small model came …"
};

Chosen choose_new(Looked& looked) {
  Question& question = looked.question;
  question.text = try_out_text(looked);
  std::vector<Candidate> candidates = choose(question, clock_of(question.device));
  Candidate best = candidates.front();
  return {best, std::move(candidates),
          str("a small model came in ", steps_tried_out, " steps to ", format_fixed(question.text.bits, 2),
              " bits per byte of its tail")};
}

// The bits per byte of the tail that a model comes to as it is, by as much of the tail as takes a few seconds.
double bits_before(const InitialModel& initial, const Runtime& runtime, const TextSample& sample,
                   const SpelledSample& spelled) {
  constexpr double most_flops = 5e11;
  const LoadedModel loaded = load_model(initial.folder, runtime);
  const double window = static_cast<double>(initial.shape.block_size) * flops_per_token(initial.shape) / 3;  // forward
  const auto windows = static_cast<std::uint64_t>(std::ceil(most_flops / window));
  const TokenSequence held_out = doctor::passing_tokens(spelled.vocab_size, spelled.held_out);
  double nats = 0, tokens = 0;
  for (const ScoredPiece& piece : score_windows(*loaded.model, runtime, held_out, windows)) {
    nats += piece.nats;
    tokens += static_cast<double>(piece.tokens);
  }
  const double bytes_per_token =
      static_cast<double>(sample.held_out.size()) / static_cast<double>(spelled.held_out.size());
  return nats / std::numbers::ln2 / (tokens * bytes_per_token);
}

SpelledSample spell_by_model(const TextSample& sample, const InitialModel& model, const DataConfig& data) {
  try {
    return spell(sample, *model.tokenizer);
  } catch (const Error& error) {
    throw Error(error.kind(),
                str(names_of(data.source), " in the tokens of ", model.folder.string(), ": ", error.message()));
  }
}

// The same for going on from a model.
Chosen choose_on(Looked& looked) {
  Question& question = looked.question;
  const InitialModel initial = find_initial_model(question.asked.model).value();
  static_cast<void>(inherit_model(question.asked, initial));  // refuses one without a tokenizer
  const SpelledSample spelled = spell_by_model(looked.sample, initial, question.asked.data);
  const doctor::ExpectedRun run = plan_for(question.asked, question.device, spelled.vocab_size);
  const Candidate model = {.vocabulary = vocabulary_of(run.config.data.tokenizer.kind, spelled),
                           .n_layer = run.shape.n_layer,
                           .n_embd = run.shape.n_embd,
                           .block_size = run.shape.block_size,
                           .batch_size = 1};
  if (!holds_windows(question, model.vocabulary, model.block_size)) {
    throw Error::input(str("the text is too short for the model's context of ", model.block_size,
                           " tokens: ask for a shorter one (--context)"));
  }
  const double before = bits_before(initial, run.runtime, looked.sample, spelled);
  const Candidate best = choose_batch(model, question, clock_of(question.device));
  return {best,
          {best},
          str(*question.asked.model.init_from, " comes to ", format_fixed(before, 2),
              " bits per byte of its tail as it is")};
}

std::vector<std::string> outlook(const Candidate& best, const Question& question,
                                 const std::vector<std::string>& overrides) {
  for (const std::string& setting : overrides) {
    if (!is_in({"model.", "optimizer.", "schedule.", "training.", "data.val"}, setting)) continue;
    return {str("what to expect with ", setting, " is not known; inkling-eval says what the run comes to")};
  }
  return outlook_of(best, question);
}

}  // namespace

Recipe make_recipe(const Request& request) {
  const StopInOrder in_order;  // so that nothing is left of temporary files
  log_info("looks at the text");
  Looked looked = look_at(request);
  log_info("measures this machine, which takes up to half a minute");
  Question& question = looked.question;
  Chosen chosen = request.like ? choose_on(looked) : choose_new(looked);
  Candidate& best = chosen.best;
  const Config asked = overridden(settings_of(best, question), request.overrides);
  const bool asked_for_steps = asked.training.max_steps != best.steps;
  best.steps = asked.training.max_steps;
  best.batch_size = asked.training.batch_size;
  if (!request.like) {
    best.block_size = asked.model.block_size;
    best.n_layer = asked.model.n_layer;
    best.n_embd = asked.model.n_embd;
  }
  std::map<std::string, std::string> reasons;
  const auto written = [&] {
    reasons = reasons_for(best, question);
    return parse_config(print_config(settings_of(best, question), reasons), "the recipe", request.overrides);
  };
  best.step_seconds =
      rounded_to(time_step(written(), question.device, best.vocabulary.size, best.step_seconds, 1.0), 1.1);
  if (!asked_for_steps) best.steps = steps_within(question.seconds, best);
  const Config config = written();
  for (const std::string& setting : request.overrides) reasons[setting.substr(0, setting.find('='))] = "as asked";
  const std::uint64_t memory = plan_for(config, question.device, best.vocabulary.size).memory;
  std::vector<std::string> top = {
      command_of(request), "", str(describe_sources(request, looked.sample), "; ", chosen.start),
      str(format_count(static_cast<std::uint64_t>(config.training.max_steps)), " steps of ",
          format_fixed(1000 * best.step_seconds, 1), " ms; training holds about ", format_bytes(memory))};
  for (const std::string& line : outlook(best, question, request.overrides)) {
    top.push_back(line);
    log_info(line);
  }
  leave_if_stopped();
  std::string yaml;
  for (const std::string& line : top) yaml += str("#", line.empty() ? "" : " ", line, "\n");
  return {.yaml = str(yaml, "\n", print_config(config, reasons)), .explanation = table_of(chosen.candidates)};
}

std::string recipe_for(const Request& request, const std::filesystem::path& run) {
  const std::filesystem::path kept = run / recipe_name;
  if (is_unused(run)) return make_recipe(request).yaml;
  const std::string remedy = "; --out names another folder, --fresh begins in a new one beside it";
  if (!is_there(kept)) throw Error::input(str(run.string(), " is a run without a recipe", remedy));
  const std::string recipe = read_small_file(kept);
  const std::string command = recipe.substr(0, recipe.find('\n'));
  const auto without_settings = [](const std::string& all) { return all.substr(0, all.find(set_flag)); };
  if (without_settings(command) == without_settings("# " + command_of(request))) return recipe;
  const std::size_t behind_program = std::min(str("# ", recipe_program).size(), command.size());
  throw Error::input(str(run.string(), " was begun by another recipe: \"inkling-train", command.substr(behind_program),
                         " --out ", shell_word(run.string()), "\" goes on", remedy));
}

}  // namespace inkling::recipe
