// inkling-attend RUN_OR_CHECKPOINT: shows what each head of a model attends to in a text.
#include <unistd.h>

#include <optional>

#include "attend/attend.h"
#include "attend/page.h"
#include "attend/picture.h"
#include "attend/print_json.h"
#include "base/files.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/load_model.h"
#include "model_flags.h"
#include "program.h"
#include "text/prompts.h"

namespace {

using namespace inkling;

struct Flags {
  ModelFlags model;
  std::vector<std::string> prompts, prompt_files;
  std::string head, out;
  bool svg = false, json = false;
};

void add_flags(CLI::App& app, Flags& flags) {
  const auto several = [](CLI::Option* option, const char* type) {
    option->type_name(type)->take_all()->allow_extra_args(false);
  };
  add_model_flags(app, flags.model);
  several(app.add_option("--prompt", flags.prompts, "the text; - is standard input; repeatable with --json"), "TEXT");
  several(app.add_option("--prompt-file", flags.prompt_files, "a file with the text; repeatable too"), "FILE");
  app.add_option("--head", flags.head, "the head on show: layer and head from 0, as 1.3")->type_name("L.H");
  app.add_flag("--svg", flags.svg, "a picture of the head on show instead of the page");
  app.add_option("--out", flags.out, "where to write (default: standard output)")->type_name("FILE");
  app.add_flag("--json", flags.json, "all weights, or all numbers of one --head, a line each");
  add_device_flags(app, flags.model);
}

void check_flags(const Flags& flags) {
  if (flags.svg && flags.json) throw Error::input("--svg and --json: both say what to print, so give one of them");
  if (flags.json && !flags.out.empty())
    throw Error::input("--out does not go with --json, which is for standard output");
}

// The page and the picture go where the person says; a terminal, which could not show them, gets a file instead.
void write_result(const Flags& flags, const std::string& result) {
  std::string place = flags.out;
  if (place.empty() && isatty(STDOUT_FILENO) != 0) place = flags.svg ? "attention.svg" : "attention.html";
  if (place.empty()) {
    std::cout << result;
    return;
  }
  write_file(place, result);
  log_info(str("wrote ", place, flags.svg ? "" : ": open it in a browser"));
}

int attend_to(int argc, char** argv) {
  CLI::App app("Shows what each head of a model attends to in a text.", "inkling-attend");
  Flags flags;
  app.get_formatter()->column_width(24);
  add_flags(app, flags);
  if (!parse_flags(app, argc, argv)) return 0;
  check_flags(flags);
  // These numbers are to be looked at, so they are the reference model's in full precision, whatever the device.
  for (const char* setting : {"runtime.dtype=float32", "runtime.kernels=reference"})
    flags.model.runtime.push_back(setting);
  const RuntimeConfig runtime = runtime_settings(flags.model);
  const LoadedModel model =
      load_model(find_checkpoint(flags.model.place, flags.model.checkpoint), resolve_flags(runtime));
  AttendSettings settings;
  std::optional<HeadChoice> head;
  if (!flags.head.empty())
    head = read_head(flags.head, "--head", model.model->shape().n_layer, model.model->shape().n_head);
  settings.shown = head.value_or(HeadChoice{});
  settings.only_shown = flags.svg || (flags.json && head);
  const Prompts prompts = read_prompts(flags.prompts, flags.prompt_files);
  check_prompts(prompts, [&](const std::string& text) { attended_tokens(model, text, settings); });
  if (flags.json) {
    for (const std::string& prompt : prompts.texts) print_json(std::cout, attend(model, prompt, settings), head);
    return 0;
  }
  if (prompts.texts.size() > 1)
    throw Error::input("a page or a picture shows one prompt: give one, or take --json, which prints a line for each");
  const AttendedText text = attend(model, prompts.texts.front(), settings);
  write_result(flags, flags.svg ? head_picture(text, settings.shown) : attention_page(text, settings.shown));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return inkling::run_program([&] { return attend_to(argc, argv); });
}
