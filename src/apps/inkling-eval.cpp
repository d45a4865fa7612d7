// inkling-eval RUN_OR_CHECKPOINT: how well a model predicts its validation split, any text, or the right one of several
// endings.
#include "base/files.h"
#include "base/paths.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/model_weights.h"
#include "config/config.h"
#include "data/dataset.h"
#include "data/windows.h"
#include "evaluate/documents.h"
#include "evaluate/print_evaluation.h"
#include "evaluate/validation.h"
#include "model_flags.h"
#include "program.h"
#include "text/build_tokenizer.h"

namespace {

using namespace inkling;

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
  app.add_option("--choices", flags.choices, "answer these questions: .jsonl, or llm.c's .bin")->type_name("FILE");
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
  const Dataset dataset = prepare_dataset(config.data, {});
  check_tokenizer(model, dataset);
  warn_of_other_data(model, dataset);
  if (const auto reason = why_no_bound(dataset, model.model->shape().block_size)) log_warning(*reason);
  const Tokenizer* const tokenizer = dataset.tokenizer ? dataset.tokenizer.get() : model.tokenizer.get();
  const auto separator = document_separator(config.data.documents, tokenizer);
  const Evaluation result = evaluate_validation(*model.model, model.runtime, dataset, 0, flags.stride, separator);
  require_number(result.loss, "the validation split");
  print(std::cout, result, settings);
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

int evaluate(int argc, char** argv) {
  CLI::App app("Measures how well a model predicts its validation split, a text, or right answers.", "inkling-eval");
  app.footer(
      "Text is scored in windows of block_size, stories of a grammar one by one and\n"
      "compared with the best possible loss. docs/formats.md defines every number.\n\n"
      "Exit codes: 0 done, 1 internal error (so is a loss below the best possible),\n"
      "2 bad input, 3 the machine cannot do it, 4 the model answers NaN.");
  Flags flags;
  add_flags(app, flags);
  if (!parse_flags(app, argc, argv)) return 0;
  check_flags(flags);
  const fs::path folder = find_checkpoint(flags.model.place, flags.model.checkpoint);
  Config config = find_config(flags, folder);
  if (config.model.init_from && holds_tokenizer(folder))
    inherit_tokenizer(config, folder, load_tokenizer(folder).get());
  replace_missing_tokenizer(config.data.tokenizer, folder);
  const LoadedModel model = load_model(folder, flags.model);
  if (flags.stride) for_flag("--stride", [&] { check_stride(*flags.stride, model.model->shape().block_size); });
  const PrintSettings settings{.json = flags.json,
                               .each = flags.each,
                               .checkpoint = folder.string(),
                               .of_average = saved_weights(flags.model) == SavedWeights::ema};
  if (!flags.choices.empty()) {
    const ChoiceFile file = read_choices(flags.choices, model, flags.strict ? Unusable::refuse : Unusable::pass_over);
    print(std::cout, evaluate_choices(*model.model, model.runtime, file), file, settings);
  } else if (!flags.texts.empty()) {
    const TextSettings text{.files = flags.texts,
                            .jsonl_field = config.data.jsonl_field,
                            .separator = config.data.separator.value_or(""),
                            .raw = config.data.raw,
                            .stride = flags.stride};
    print(std::cout, evaluate_text(model, text), text, settings);
  } else {
    evaluate_split(model, config, flags, settings);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return inkling::run_program([&] { return evaluate(argc, argv); });
}
