// inkling-watch RUN: shows a run in the terminal while it goes on, from its files alone.
#include "watch/watch.h"

#include "program.h"

namespace {

using namespace inkling;

int watch_run(int argc, char** argv) {
  CLI::App app("Shows a run in the terminal while it goes on, or as it ended: curve, speed, time\nleft, last sample.",
               "inkling-watch");
  app.footer(
      "It only reads the run's files and never disturbs it. q or Ctrl-C ends the view.\n"
      "Where the output is no terminal it prints one picture.\n\n"
      "Example:\n  inkling-watch runs/fables\n\n"
      "Exit codes: 0 done, 1 internal error, 2 bad input, 3 the machine cannot do it.");
  WatchOptions options;
  std::string color = "auto", characters = "auto";
  app.add_option("RUN", options.run, "a run's folder (default: the one in runs/ that trains)")->type_name("");
  app.add_flag("--once", options.once, "print one picture and stop");
  app.add_option("--width", options.columns, "most columns to use (default: the terminal's)")
      ->check(CLI::Range(1, 10'000).description(""))
      ->type_name("N");
  app.add_option("--height", options.rows, "most rows to use (default: the terminal's)")
      ->check(CLI::Range(1, 10'000).description(""))
      ->type_name("N");
  app.add_option("--color", color, "auto, always or never")
      ->check(CLI::IsMember({"auto", "always", "never"}).description(""))
      ->type_name("WHEN");
  app.add_option("--characters", characters, "auto (by the locale), utf8 or ascii")
      ->check(CLI::IsMember({"auto", "utf8", "ascii"}).description(""))
      ->type_name("SET");
  if (!parse_flags(app, argc, argv)) return 0;
  if (color != "auto") options.color = color == "always";
  if (characters != "auto") options.charset = characters == "utf8" ? Charset::utf8 : Charset::ascii;
  return watch(options);
}

}  // namespace

int main(int argc, char** argv) {
  return inkling::run_program([&] { return watch_run(argc, argv); });
}
