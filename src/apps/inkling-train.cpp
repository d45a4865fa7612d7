// inkling-train CONFIG: tokenizes the text if needed, trains, saves checkpoints and a log. Run again, it goes on where
// it stopped. With --minutes, CONFIG is a text, for which a recipe is made first.
#include "base/files.h"
#include "base/rank_place.h"
#include "config/config.h"
#include "program.h"
#include "recipe/recipe.h"
#include "recipe_flags.h"
#include "train/start.h"
#include "train/train.h"

namespace {

// Makes a recipe for the text that stands in CONFIG's place, or takes that of the run.
inkling::Config begin_by_recipe(inkling::recipe::Request& request, const inkling::ConfigFlags& flags,
                                inkling::TrainOptions& options) {
  const std::filesystem::path text = flags.config;
  if (text.extension() == ".yaml" || text.extension() == ".yml") {
    throw inkling::Error::input(inkling::str(flags.config,
                                             " is a configuration, which says itself how long to train: give "
                                             "it without --minutes, or a text with them"));
  }
  if (!inkling::find_rank_place().is_alone()) {
    throw inkling::Error::input(
        "--minutes measures one process: let inkling-recipe write the settings, and several train by that file");
  }
  request.text = {flags.config};
  request.overrides = flags.overrides;
  options.out = inkling::choose_run_folder(options);
  options.fresh = false;
  const std::filesystem::path kept = options.out / inkling::recipe_name;
  options.recipe = inkling::recipe::recipe_for(request, options.out);
  inkling::Config config = inkling::parse_config(options.recipe, kept.string(), flags.overrides);
  if (!options.dry_run && !flags.print_config) {
    inkling::log_info(inkling::str("trains by the recipe in ", kept.string()));
  }
  return config;
}

}  // namespace

int main(int argc, char** argv) {
  return inkling::run_program([&] {
    CLI::App app("Trains a GPT as a YAML file says. Run the same command again to go on after a stop.",
                 "inkling-train");
    app.footer(
        "Exit codes: 0 done, 1 internal error, 2 bad input, 3 the machine cannot do it,\n"
        "4 training diverged, 75 saved and stopped by a signal or training.max_hours (run\n"
        "again to go on).");
    inkling::ConfigFlags flags;
    inkling::TrainOptions options;
    inkling::recipe::Request request;
    inkling::add_config_flags(app, flags);
    inkling::add_recipe_flags(app, request);
    app.get_option("CONFIG")->description("the run's settings, a YAML file; with --minutes a text");
    app.add_option("--out", options.out, "the run folder (default: runs/NAME_OF_CONFIG)")->type_name("FOLDER");
    app.add_flag("--fresh", options.fresh, "start over in a new folder next to the old one; nothing is deleted");
    app.set_version_flag("--settings", inkling::config_reference, "print every setting as Markdown, and stop");
    app.add_flag_callback(
        "--schema", [] { throw CLI::CallForVersion(inkling::config_schema(), 0); },
        "print the settings' JSON schema, for editors, and stop");
    app.add_option("--profile", options.profile, "record ten steps in this file, for ui.perfetto.dev")
        ->type_name("FILE");
    app.add_flag("--accept-changes", options.accept_changes, "resume although settings changed that alter the result");
    if (!inkling::parse_flags(app, argc, argv)) return 0;
    options.config_path = flags.config;
    options.dry_run = flags.dry_run;
    const inkling::Config config = app.get_option("--minutes")->count() > 0
                                       ? begin_by_recipe(request, flags, options)
                                       : inkling::load_config(flags.config, flags.overrides);
    if (flags.print_config) {
      std::cout << inkling::print_config(inkling::complete_settings(config));
      return 0;
    }
    try {
      return inkling::train(config, options);
    } catch (const inkling::CannotGoOn& error) {
      throw inkling::Error::input(inkling::str(error.message(),
                                               error.lacks_consent() ? "; --accept-changes goes on all the same" : "",
                                               "; --fresh starts over in a new folder beside it"));
    }
  });
}
