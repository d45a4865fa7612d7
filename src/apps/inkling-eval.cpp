// inkling-eval RUN_OR_CHECKPOINT: the loss on the whole validation split, and what it means.
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/paths.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/load_model.h"
#include "config/config.h"
#include "data/dataset.h"
#include "model_flags.h"
#include "program.h"
#include "train/evaluate.h"

namespace {

using namespace inkling;

struct Flags {
  ModelFlags model;
  std::string config;
  std::vector<std::string> overrides;
  bool json = false;
};

void add_flags(CLI::App& app, Flags& flags) {
  add_model_flags(app, flags.model);
  app.add_option("--config", flags.config, "settings whose data: is scored (default: those the model was trained with)")
      ->type_name("FILE");
  add_set_flag(app, flags.overrides, "override one of those settings, as data.source=other.txt; may be repeated");
  app.add_flag("--json", flags.json, "the result as one JSON object");
  add_runtime_flags(app, flags.model);
}

// The settings that say where the data is: they are in the checkpoint's folder, or given by the person.
Config find_config(const Flags& flags, const fs::path& folder) {
  if (!flags.config.empty()) return load_config(flags.config, flags.overrides);
  const fs::path path = folder / "config.yaml";
  if (!is_there(path)) {
    throw Error::input(str(folder.string(),
                           " holds no config.yaml, so the data to score is not known: give the settings "
                           "that name it with --config FILE"));
  }
  return load_kept_config(path, flags.overrides);
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

std::string plus_minus(double value, double error, int decimals) {
  return str(format_fixed(value, decimals), std::isnan(error) ? "" : str(" +- ", format_fixed(error, decimals)));
}

void print(const Evaluation& result) {
  std::cout << "loss           " << plus_minus(result.loss, result.standard_error, 4) << " nats per token\n"
            << "perplexity     " << format_fixed(result.perplexity(), 3) << '\n';
  if (result.bits_per_byte) std::cout << "bits per byte  " << format_fixed(*result.bits_per_byte, 4) << '\n';
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

void print_json(const Evaluation& result, const fs::path& folder) {
  nlohmann::ordered_json line{{"checkpoint", folder.string()},
                              {"loss", result.loss},
                              {"standard_error", result.standard_error},  // null where it is not known
                              {"perplexity", result.perplexity()},
                              {"tokens", result.tokens},
                              {"pieces", result.pieces}};
  if (result.bits_per_byte) line["bits_per_byte"] = *result.bits_per_byte;
  if (result.bound) {
    line["best_possible"] = result.bound->best_possible;
    line["excess_ratio"] = result.bound->excess_ratio();
    line["excess_standard_error"] = result.bound->excess_standard_error;
  }
  std::cout << line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
}

int evaluate(int argc, char** argv) {
  CLI::App app("Scores every token of the validation split once, in order.", "inkling-eval");
  app.footer(
      "Text is scored in windows of block_size, back to back. Stories from a grammar are scored one by\n"
      "one from their beginnings, and compared with the best loss that any model can reach.\n\n"
      "Exit codes: 0 done, 1 internal error (a loss below the best possible one is one), 2 bad input,\n"
      "3 the machine cannot do it.");
  Flags flags;
  add_flags(app, flags);
  if (!parse_flags(app, argc, argv)) return 0;
  const RuntimeConfig runtime = runtime_settings(flags.model);
  const fs::path folder = find_checkpoint(flags.model.place, flags.model.checkpoint);
  const Config config = find_config(flags, folder);
  const LoadedModel model = load_model(folder, resolve_flags(runtime));
  const Dataset dataset = prepare_dataset(config.data, {});
  check_tokenizer(model, dataset);
  warn_of_other_data(model, dataset);
  if (const auto reason = why_no_bound(dataset, model.model->shape().block_size)) log_warning(*reason);

  const Evaluation result = evaluate_validation(*model.model, model.runtime, dataset);
  if (flags.json)
    print_json(result, folder);
  else
    print(result);
  if (!result.bound || !result.bound->impossible()) return 0;
  throw Error::internal(
      "the loss is more than 3 standard errors below the best possible one: the model has seen these "
      "stories, or the bound or the scoring is wrong");
}

}  // namespace

int main(int argc, char** argv) {
  return inkling::run_program([&] { return evaluate(argc, argv); });
}
