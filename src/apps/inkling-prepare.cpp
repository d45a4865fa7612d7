// inkling-prepare CONFIG: turns the text of `data:` into token files, and nothing else.
#include "base/error.h"
#include "base/files.h"
#include "base/paths.h"
#include "config/config.h"
#include "data/dataset.h"
#include "formats/model_place.h"
#include "program.h"
#include "text/build_tokenizer.h"

namespace {

using namespace inkling;

void describe_split(std::string_view name, const SplitSummary& split) {
  if (split.tokens == 0) return log_info(str(name, ": the number of tokens is known once the tokenizer is trained"));
  std::string line = str(name, ": ", format_count(split.tokens), " tokens");
  if (split.bytes > 0) line += str(" from ", format_bytes(split.bytes), " of text");
  if (split.documents > 1) line += str(" in ", format_count(split.documents), " documents");
  log_info(line);
}

void describe(const Dataset& dataset) {
  log_info(str("vocabulary: ", format_count(dataset.vocab_size), " tokens",
               dataset.tokenizer ? str(" (", dataset.tokenizer->kind(), ")") : std::string()));
  describe_split("train", dataset.train);
  describe_split("validation", dataset.validation);
}

// The folder of the model that the run starts from; of a run one of its checkpoints, which all have its tokenizer.
fs::path find_model(const fs::path& init_from) {
  require_model(init_from);
  fs::path folder = model_folder(init_from);
  for (const std::string& name : names_in(folder / "checkpoints")) {
    if (holds_tokenizer(folder / "checkpoints" / name)) return folder / "checkpoints" / name;
  }
  return folder;
}

int prepare(int argc, char** argv) {
  CLI::App app("Turns the text of a run into token files, once. Prints their folder.", "inkling-prepare");
  app.footer(
      "Example:\n  inkling-prepare configs/shakespeare_char.yaml --set data.tokenizer.kind=byte\n\n"
      "Exit codes: 0 done, 1 internal error, 2 bad input, 3 the machine cannot do it.");
  ConfigFlags flags;
  PrepareOptions options;
  add_config_flags(app, flags);
  app.add_flag("--verify", options.verify, "read sources and token files again even if they seem unchanged");
  if (!parse_flags(app, argc, argv)) return 0;

  Config config = load_config(flags.config, flags.overrides);
  if (config.model.init_from) {
    const std::filesystem::path model = find_model(*config.model.init_from);
    inherit_tokenizer(config, model, holds_tokenizer(model) ? load_tokenizer(model).get() : nullptr);
  }
  if (flags.print_config) {
    if (config.model.init_from) {
      throw Error::input("the shape comes from model.init_from; inkling-train --print-config shows it");
    }
    std::cout << print_config(config);
    return 0;
  }
  const bool is_inherited = config.model.init_from && !config.written.find("model.block_size");
  options.block_size = is_inherited ? 0 : config.model.block_size;  // 0: not known here
  options.dry_run = flags.dry_run;
  const Dataset dataset = prepare_dataset(config.data, options);
  describe(dataset);
  const std::string lack = describe_lack_of_room(dataset.folder, dataset.bytes_to_write);
  if (!lack.empty()) throw Error::environment(str("dry run: nothing was written; ", lack));
  std::cout << dataset.folder.string() << '\n';
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return inkling::run_program([&] { return prepare(argc, argv); });
}
