// inkling-attend RUN_OR_CHECKPOINT: shows what each head of a model attends to in a text.
#include <unistd.h>

#include <fstream>
#include <optional>
#include <utility>

#include "attend/attend.h"
#include "attend/attended_text.h"
#include "base/files.h"
#include "base/paths.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/model_weights.h"
#include "model_flags.h"
#include "program.h"
#include "text/prompts.h"

namespace {

using namespace inkling;

struct Flags {
  ModelFlags model;
  std::vector<std::string> prompts, prompt_files;
  std::string head, out;
  bool svg = false, json = false, special = false;
};

void add_flags(CLI::App& app, Flags& flags) {
  const auto several = [](CLI::Option* option, const char* type) {
    option->type_name(type)->take_all()->allow_extra_args(false);
  };
  add_model_flags(app, flags.model);
  several(app.add_option("--prompt", flags.prompts, "the text; - is standard input; repeatable with --json"), "TEXT");
  several(app.add_option("--prompt-file", flags.prompt_files, "a file with the text; repeatable too"), "FILE");
  app.add_option("--head", flags.head, "the head to show: layer and head, counted from 0, as 1.3")->type_name("L.H");
  app.add_flag("--svg", flags.svg, "a picture of that head instead of the page");
  app.add_flag("--json", flags.json, "print all weights, or all numbers of --head, a line a prompt");
  app.add_flag("--special", flags.special, "read names of special tokens in a text as tokens");
  app.add_option("--out", flags.out, "the file to write")->type_name("FILE");
  add_device_flags(app, flags.model);
}

void check_flags(const Flags& flags, const Prompts& prompts) {
  if (flags.svg && flags.json) throw Error::input("--svg and --json exclude each other: run it twice");
  if (flags.svg && flags.head.empty()) throw Error::input("--svg draws one head: add --head L.H, as --head 0.0");
  if (flags.json && !flags.out.empty()) throw Error::input("--json goes to standard output: write > FILE, not --out");
  if (!flags.json && prompts.texts.size() > 1)
    throw Error::input("a page or a picture shows one text: give one prompt, or --json, which takes several");
}

// The numbers are there to be looked at, so they are the reference model's in full precision, whatever the device.
LoadedModel load_reference(ModelFlags flags) {
  set_runtime(flags, "dtype", "float32");
  set_runtime(flags, "kernels", "reference");
  return load_model(find_checkpoint(flags.place, flags.checkpoint), flags);
}

// A page opens with the head that was asked for, or else with the one that has most to show, which is in full too.
std::string page_of(const LoadedModel& model, const std::string& prompt, AttendSettings settings) {
  AttendedText text = attend(model, prompt, settings);
  const HeadChoice shown = settings.shown.value_or(clearest_head(text));
  AttendedHead& opened = text.layers[shown.layer].heads[shown.head];
  if (!opened.in_full()) {
    settings.shown = shown;
    settings.only_shown = true;
    AttendedText alone = attend(model, prompt, settings);
    opened = std::move(alone.layers[shown.layer].heads[shown.head]);
  }
  return attention_page(text, shown);
}

// Writes to what is no file of its own (a device, a pipe, a link), which a new file must not replace.
void write_through(const std::string& place, const std::string& result) {
  std::ofstream out(place);
  if (!(out << result << std::flush)) throw Error::environment(str("cannot write ", place));
}

// A name that no file has: attention.html, else attention-2.html …
std::string free_name(const std::string& stem, const std::string& ending) {
  std::string name = stem + ending;
  for (int number = 2; is_there(name); ++number) name = str(stem, "-", number, ending);
  return name;
}

// A page or a picture goes where the person says; a terminal, which could not show it, gets a file instead.
void write_result(const Flags& flags, const std::string& result) {
  std::string place = flags.out;
  if (place.empty() && ::isatty(STDOUT_FILENO) != 0) place = free_name("attention", flags.svg ? ".svg" : ".html");
  if (place.empty() || place == "-") {
    std::cout << result;
    return;
  }
  std::error_code ignored;
  const fs::file_type type = fs::symlink_status(place, ignored).type();
  const bool replaceable = type == fs::file_type::regular || type == fs::file_type::not_found;
  if (replaceable || type == fs::file_type::directory) {  // which write_file() refuses
    write_file(place, result);
    log_info(str("wrote ", place, flags.svg ? "" : ": open it in a browser"));
  } else {
    write_through(place, result);
  }
}

void warn_of_a_large_page(const std::string& page) {
  constexpr std::size_t comfortable = std::size_t{32} << 20;
  if (page.size() <= comfortable) return;
  log_warning(str("the page has ", format_bytes(page.size()),
                  ", with which a browser may be slow: give a shorter prompt, ",
                  "or look at one head with --head L.H --svg or --json"));
}

int attend_to(int argc, char** argv) {
  CLI::App app("Shows what each head of a model attends to in a text, as a page for a browser.", "inkling-attend");
  app.footer(
      "Examples:\n"
      "  inkling-attend runs/fables --prompt \"The fox ran because it was\"\n"
      "  inkling-attend runs/fables --prompt \"The fox ran\" --head 1.3 --svg > head.svg\n\n"
      "The result goes to standard output; where that is a terminal, the page goes to\n"
      "attention.html and a picture to attention.svg. Without --head the page opens\n"
      "with the head whose last token looks most at one token between the first and\n"
      "itself. The numbers are the reference model's, in float32; docs/formats.md,\n"
      "\"Attention\", says what the JSON holds.\n"
      "Exit codes: 0 done, 1 internal error, 2 bad input, 3 the machine cannot do it,\n"
      "4 the model outputs NaN.");
  app.get_formatter()->column_width(24);
  Flags flags;
  add_flags(app, flags);
  if (!parse_flags(app, argc, argv)) return 0;
  const Prompts prompts = read_prompts(flags.prompts, flags.prompt_files, "--prompt");
  check_flags(flags, prompts);
  const LoadedModel model = load_reference(flags.model);
  const GptShape& shape = model.model->shape();
  std::optional<HeadChoice> head;
  if (!flags.head.empty())
    head = for_flag("--head", [&] { return read_head(flags.head, shape.n_layer, shape.n_head); });
  const AttendSettings settings{.shown = head,
                                .names = flags.special ? NamesInPrompt::tokens : NamesInPrompt::text,
                                .only_shown = head.has_value() && (flags.svg || flags.json)};
  if (!flags.special) hint_at_names(require_tokenizer(model), prompts, "--special");
  check_prompts(prompts, [&](const std::string& text) { attended_tokens(model, text, settings); });
  if (flags.json) {
    for (const std::string& prompt : prompts.texts) print_json(std::cout, attend(model, prompt, settings), head);
  } else if (flags.svg) {
    write_result(flags, head_picture(attend(model, prompts.texts.front(), settings), *head));
  } else {
    const std::string page = page_of(model, prompts.texts.front(), settings);
    warn_of_a_large_page(page);
    write_result(flags, page);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return inkling::run_program([&] { return attend_to(argc, argv); });
}
