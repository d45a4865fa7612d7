// inkling-eval RUN_OR_CHECKPOINT: how well a model predicts its validation split, any text, or the right one of several
// endings.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/files.h"
#include "base/paths.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/model_weights.h"
#include "config/config.h"
#include "data/dataset.h"
#include "data/windows.h"
#include "evaluate/choices.h"
#include "evaluate/documents.h"
#include "evaluate/validation.h"
#include "model_flags.h"
#include "program.h"
#include "text/build_tokenizer.h"

namespace {

using namespace inkling;

// What is shown: for people, or as JSON, one object a line with the totals last.
struct PrintSettings {
  bool json = false;
  bool each = false;  // also a line for each document or example
  std::string checkpoint;
  bool of_average = false;  // whether the averaged weights were scored
};

using Json = nlohmann::ordered_json;

// What is not a number is null, and bytes that are not UTF-8 (of a file's name) are replaced.
void print_line(const Json& line) { std::cout << line.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n'; }

std::string plus_minus(double value, double error, int decimals) {
  return str(format_fixed(value, decimals), std::isnan(error) ? "" : str(" +- ", format_fixed(error, decimals)));
}

void print_loss(double loss, double standard_error, const std::optional<double>& bits_per_byte) {
  std::cout << "loss           " << plus_minus(loss, standard_error, 4) << " nats per token\n"
            << "perplexity     " << format_fixed(std::exp(loss), 3) << '\n';
  if (bits_per_byte) std::cout << "bits per byte  " << format_fixed(*bits_per_byte, 4) << '\n';
}

void add_score(Json& line, const TextScore& score) {
  const double loss = score.loss();
  line["loss"] = loss;
  line["perplexity"] = std::exp(loss);
  line["bits_per_byte"] = score.bits_per_byte();
  line["tokens"] = score.piece.tokens;
  line["bytes"] = score.bytes;
}

void print_document(const DocumentScore& score, const std::string& file, const PrintSettings& settings) {
  if (settings.json) {
    Json line{{"file", file}, {"line", score.line}};
    add_score(line, score);
    return print_line(line);
  }
  const double loss = score.loss();
  std::cout << file << ':' << score.line << "  loss " << format_fixed(loss, 4) << "  perplexity "
            << format_fixed(std::exp(loss), 3) << "  bits per byte " << format_fixed(score.bits_per_byte(), 4)
            << "  tokens " << score.piece.tokens << "  bytes " << score.bytes << '\n';
}

constexpr std::array<const char*, choice_rules> rule_names = {"accuracy", "accuracy_per_token",
                                                              "accuracy_per_character"};

void print_example(const ChoiceResult& result, const ChoiceExample& example, const ChoiceFile& file,
                   const PrintSettings& settings) {
  std::vector<double> log_likelihoods;
  std::vector<std::uint64_t> tokens;
  for (const ScoredPiece& ending : result.endings) {
    log_likelihoods.push_back(-ending.nats);
    tokens.push_back(ending.tokens);
  }
  if (!settings.json) {
    std::cout << file.path.string() << ':' << example.number << "  label " << example.label << "  chosen";
    for (const std::size_t chosen : result.chosen) std::cout << ' ' << chosen;
    std::cout << "  log-likelihoods";
    for (const double value : log_likelihoods) std::cout << ' ' << format_fixed(value, 4);
    std::cout << '\n';
    return;
  }
  Json line{{"file", file.path.string()}, {file.has_text ? "line" : "example", example.number}};
  line["label"] = example.label;
  line["chosen"] = result.chosen;
  line["log_likelihoods"] = log_likelihoods;
  line["tokens"] = tokens;
  if (file.has_text) line["characters"] = example.characters;
  print_line(line);
}

// What every object of the totals begins with.
Json scored_model(const PrintSettings& settings) {
  Json line{{"checkpoint", settings.checkpoint}};
  if (settings.of_average) line["weights"] = "ema";
  return line;
}

void print_json(const Evaluation& result, const PrintSettings& settings) {
  Json line = scored_model(settings);
  line.update({{"loss", result.loss},
               {"standard_error", result.standard_error},
               {"perplexity", result.perplexity()},
               {"tokens", result.tokens},
               {"pieces", result.pieces}});
  if (result.bits_per_byte) line["bits_per_byte"] = *result.bits_per_byte;
  if (result.bound) {
    line["best_possible"] = result.bound->best_possible;
    line["excess_ratio"] = result.bound->excess_ratio();
    line["excess_standard_error"] = result.bound->excess_standard_error;
  }
  print_line(line);
}

void print(const Evaluation& result, const PrintSettings& settings) {
  if (settings.json) return print_json(result, settings);
  print_loss(result.loss, result.standard_error, result.bits_per_byte);
  if (result.bound) {
    const BoundComparison& bound = *result.bound;
    std::cout << "best possible  " << format_fixed(bound.best_possible, 4) << " nats per token\n"
              << "above it by    "
              << plus_minus(100 * bound.excess_ratio(), 100 * bound.excess_standard_error / bound.best_possible, 2)
              << " %\n";
  }
  std::cout << "scored         " << format_count(result.tokens) << " tokens in " << format_count(result.pieces)
            << (result.bound ? " stories\n" : " windows\n");
}

void print(const TextEvaluation& result, const TextSettings& text, const PrintSettings& settings) {
  for (const DocumentScore& score : result.documents) {
    if (settings.each) print_document(score, text_name(text.files[score.file]), settings);
  }
  if (settings.json) {
    Json line = scored_model(settings);
    add_score(line, result.total);
    line["standard_error"] = result.standard_error;
    line["documents"] = result.documents.size();
    return print_line(line);
  }
  print_loss(result.total.loss(), result.standard_error, result.total.bits_per_byte());
  std::cout << "scored         " << format_count(result.total.piece.tokens) << " tokens, "
            << format_count(result.total.bytes) << " bytes, in " << format_count(result.documents.size())
            << (result.documents.size() == 1 ? " document\n" : " documents\n");
}

void print(const ChoiceEvaluation& result, const ChoiceFile& file, const PrintSettings& settings) {
  for (std::size_t i = 0; i < result.results.size(); ++i) {
    if (settings.each) print_example(result.results[i], file.examples[i], file, settings);
  }
  Json line = scored_model(settings);
  for (std::size_t rule = 0; rule < result.accuracies.size(); ++rule) {
    const Accuracy& accuracy = result.accuracies[rule];
    const std::string name = rule_names[rule];
    line[name] = accuracy.value;
    line[name + "_standard_error"] = accuracy.standard_error;
    line[name + "_right"] = accuracy.right;
  }
  line["examples"] = file.examples.size();
  line["passed_over"] = file.passed_over;
  if (settings.json) return print_line(line);
  constexpr std::array<const char*, choice_rules> titles = {"accuracy       ", "per token      ", "per character  "};
  for (std::size_t rule = 0; rule < result.accuracies.size(); ++rule) {
    const Accuracy& accuracy = result.accuracies[rule];
    std::cout << titles[rule] << plus_minus(100 * accuracy.value, 100 * accuracy.standard_error, 2) << " %, "
              << format_count(accuracy.right) << " right\n";
  }
  std::cout << "scored         " << format_count(file.examples.size()) << " examples";
  if (file.passed_over > 0) {
    std::cout << "; " << format_count(file.passed_over) << " of "
              << format_count(file.examples.size() + file.passed_over) << (file.has_text ? " lines" : " examples")
              << " passed over";
  }
  std::cout << '\n';
}

struct Flags {
  ModelFlags model;
  std::string config;
  std::vector<std::string> overrides;
  std::vector<std::string> texts;
  std::string choices;
  std::optional<std::int64_t> stride;
  bool each = false, json = false, strict = false;
};

void add_flags(CLI::App& app, Flags& flags) {
  add_model_flags(app, flags.model);
  app.add_option("--text", flags.texts, "score this text; - is standard input")
      ->type_name("FILE")
      ->take_all()
      ->allow_extra_args(false);
  app.add_option("--choices", flags.choices, "score these multiple-choice questions: .jsonl, or llm.c's .bin")
      ->type_name("FILE");
  app.add_option("--stride", flags.stride, "advance windows by N tokens (default: block_size)")->type_name("N");
  app.add_flag("--each", flags.each, "also print a line for each document or question");
  app.add_flag("--strict", flags.strict, "refuse a file with a question that cannot be scored");
  app.add_flag("--json", flags.json, "print JSON, one object a line");
  app.add_option("--config", flags.config, "the settings that name the data to score")->type_name("CONFIG");
  add_set_flag(app, flags.overrides, "override one of them, as data.source=other.txt");
  add_runtime_flags(app, flags.model);
}

// The settings that say where the data is: they are in the checkpoint's folder, or given by the person.
Config find_config(const Flags& flags, const fs::path& folder) {
  if (!flags.config.empty()) return load_config(flags.config, flags.overrides);
  const fs::path path = folder / "config.yaml";
  if (is_there(path)) return load_kept_config(path, flags.overrides);
  // Texts need none of the settings but data.jsonl_field and data.raw, questions need none.
  if (!flags.texts.empty() || !flags.choices.empty()) return defaults_with(flags.overrides);
  throw Error::input(str(folder.string(),
                         " holds no config.yaml, so the data to score is not known: give the settings "
                         "that name it with --config FILE"));
}

// A loss means nothing if the model reads other tokens than the data holds.
void check_tokenizer(const LoadedModel& model, const Dataset& dataset) {
  if (!model.tokenizer || !dataset.tokenizer || model.tokenizer->hash() == dataset.tokenizer->hash()) return;
  throw Error::input(str("the tokenizer of ", model.folder.string(), " is not the one of the data in ",
                         dataset.folder.string(), ": the model was trained on another text or with other settings"));
}

void warn_of_other_data(const LoadedModel& model, const Dataset& dataset) {
  if (!is_there(model.folder / "state.json")) return;
  if (load_state(model.folder).data_hash == dataset.hash) return;
  log_warning(str("the data in ", dataset.folder.string(),
                  " is not what the model was trained on: training text may be "
                  "in its validation split"));
}

void evaluate_split(const LoadedModel& model, const Config& config, const Flags& flags, const PrintSettings& settings) {
  Dataset dataset;
  model.runtime.ranks.first_then_others([&] { dataset = prepare_dataset(config.data, {}); });
  check_tokenizer(model, dataset);
  warn_of_other_data(model, dataset);
  if (const auto reason = why_no_bound(dataset, model.model->shape().block_size)) log_warning(*reason);
  const Tokenizer* const tokenizer = dataset.tokenizer ? dataset.tokenizer.get() : model.tokenizer.get();
  const auto separator = document_separator(config.data.documents, tokenizer);
  const Evaluation result = evaluate_validation(*model.model, model.runtime, dataset, 0, flags.stride, separator);
  require_number(result.loss, "the validation split");
  print(result, settings);
  if (!result.bound || !result.bound->impossible()) return;
  throw Error::internal(
      "the loss is more than 3 standard errors below the best possible one: the model has seen these "
      "stories, or the bound or the scoring is wrong");
}

void check_flags(const Flags& flags) {
  const bool choices = !flags.choices.empty();
  if (choices && !flags.texts.empty()) throw Error::input("--text and --choices exclude each other: run it twice");
  if (choices && flags.stride)
    throw Error::input("--stride does not go with --choices, whose texts are not cut into windows");
  if (flags.strict && !choices) throw Error::input("--strict goes with --choices");
  if (flags.each && !choices && flags.texts.empty()) throw Error::input("--each goes with --text or --choices");
}

// Several ranks share out what is scored, and all of them have all the numbers.
void require_same(const Ranks& ranks, const std::string& own, std::string_view verb, std::string_view remedy) {
  const std::vector<std::string> all = ranks.gather(own);
  for (int rank = 1; rank < ranks.count(); ++rank) {
    const std::string& theirs = all[static_cast<std::size_t>(rank)];
    if (theirs == all.front()) continue;
    throw Error::input(str(ranks.name_of(rank), " ", verb, " ", quote(theirs), ", and rank 0 ", verb, " ",
                           quote(all.front()), "; ", remedy));
  }
}

void require_same_flags(const Ranks& ranks, const std::vector<std::string>& words) {
  const bool reads_input = std::find(words.begin(), words.end(), "-") != words.end();
  if (reads_input && !ranks.is_alone()) {
    throw Error::input("--text -: standard input comes to one rank alone; give a file");
  }
  require_same(ranks, join(words, " "), "was called with", "start all ranks by the same command");
}

void require_same_device(const LoadedModel& model) {
  const Runtime& runtime = model.runtime;
  const std::string_view device = computes_with_threads(runtime.device) ? "cpu" : "cuda";
  require_same(runtime.ranks, str(device, ", ", word_of(runtime.kernels), " in ", runtime.dtype_name()), "computes by",
               "name a --device and a --dtype that all ranks have");
}

int evaluate(int argc, char** argv) {
  CLI::App app("Measures how well a model predicts its validation split, a text, or the right answers to questions.",
               "inkling-eval");
  app.footer(
      "Text is scored in windows of block_size, stories of a grammar one by one and\n"
      "compared with the best possible loss. docs/formats.md defines every number.\n\n"
      "Exit codes: 0 done, 1 internal error (so is a loss below the best possible),\n"
      "2 bad input, 3 the machine cannot do it, 4 the model outputs NaN.");
  Flags flags;
  add_flags(app, flags);
  if (!parse_flags(app, argc, argv)) return 0;
  check_flags(flags);
  const fs::path folder = find_checkpoint(flags.model.place, flags.model.checkpoint);
  Config config = find_config(flags, folder);
  if (config.model.init_from && holds_tokenizer(folder))
    inherit_tokenizer(config, folder, load_tokenizer(folder).get());
  replace_missing_tokenizer(config.data.tokenizer, folder);
  const Ranks ranks = join_ranks(config.ranks.timeout);
  require_same_flags(ranks, std::vector<std::string>(argv + 1, argv + argc));
  static std::ostringstream unseen;
  if (!ranks.is_first()) std::cout.rdbuf(unseen.rdbuf());
  LoadedModel model = load_model(folder, flags.model);
  model.runtime.ranks = ranks;
  require_same_device(model);
  agree_on_batches(model.runtime);
  if (flags.stride) for_flag("--stride", [&] { check_stride(*flags.stride, model.model->shape().block_size); });
  const PrintSettings settings{.json = flags.json,
                               .each = flags.each,
                               .checkpoint = folder.string(),
                               .of_average = saved_weights(flags.model) == SavedWeights::ema};
  if (!flags.choices.empty()) {
    const ChoiceFile file = read_choices(flags.choices, model, flags.strict ? Unusable::refuse : Unusable::pass_over);
    print(evaluate_choices(*model.model, model.runtime, file), file, settings);
  } else if (!flags.texts.empty()) {
    const TextSettings text{.files = flags.texts,
                            .jsonl_field = config.data.jsonl_field,
                            .separator = config.data.separator.value_or(""),
                            .raw = config.data.raw,
                            .stride = flags.stride};
    print(evaluate_text(model, text), text, settings);
  } else {
    evaluate_split(model, config, flags, settings);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return inkling::run_program([&] { return evaluate(argc, argv); });
}
