#include "watch/watch.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>

#include "base/files.h"
#include "base/paths.h"
#include "base/strings.h"
#include "watch/frame.h"
#include "watch/screen.h"

namespace inkling {
namespace {

constexpr int milliseconds_between_looks = 500;

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string_view environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool can_be_drawn_on() {
  return ::isatty(STDOUT_FILENO) == 1 && environment("TERM") != "dumb" && !environment("TERM").empty();
}

// The first that is known: what was asked for, what the terminal says, what the environment says.
std::size_t first_known(std::size_t asked, std::size_t terminal, const char* variable, std::size_t otherwise) {
  if (asked > 0) return asked;
  if (terminal > 0) return terminal;
  const auto said = whole_number(environment(variable));
  return said && *said > 0 && *said <= 10'000 ? static_cast<std::size_t>(*said) : otherwise;
}

std::vector<std::string> rendered_frame(const RunView& view, const FrameForm& form, bool color) {
  std::vector<std::string> lines;
  for (const TextLine& line : make_frame(view, form, seconds_since_1970())) lines.push_back(rendered(line, color));
  return lines;
}

// A folder that is not there yet, or still empty, is waited for: who starts a run and its view together need not count
// seconds. Returns whether it has come.
bool wait_for_run(Screen& screen, const fs::path& run, Charset charset) {
  if (is_there(run) && !(is_folder(run) && names_in(run).empty())) return true;
  const auto nearest = nearest_beside(without_slash(run));
  const std::string text = str("waiting for ", run.string(), ", which is not there yet",
                               nearest ? str(" (did you mean ", nearest->string(), "?)") : "", "; q ends");
  while (!is_run_folder(run)) {
    screen.show(wrapped(printable(text, charset), screen.size().columns));
    if (screen.wait(milliseconds_between_looks) == Wish::end) return false;
  }
  return true;
}

int show_live(const fs::path& run, const WatchOptions& options, FrameForm form, bool color) {
  Screen screen;
  form.live = true;
  if (!wait_for_run(screen, run, form.charset)) return screen.exit_code();
  RunFiles files(run);
  for (Wish wish = Wish::nothing; wish != Wish::end; wish = screen.wait(milliseconds_between_looks)) {
    files.update();
    const TerminalSize size = screen.size();
    form.columns = options.columns > 0 ? std::min(options.columns, size.columns) : size.columns;
    form.rows = options.rows > 0 ? std::min(options.rows, size.rows) : size.rows;
    screen.show(rendered_frame(files.view(), form, color));
  }
  return screen.exit_code();
}

}  // namespace

int watch(const WatchOptions& options) {
  const fs::path run = options.run.empty() ? find_running("runs") : options.run;
  const bool drawn_on = can_be_drawn_on();
  const bool color = options.color.value_or(drawn_on && environment("NO_COLOR").empty());
  FrameForm form;
  form.charset = options.charset.value_or(charset_of_environment());
  if (!options.once && drawn_on) return show_live(run, options, form, color);
  const TerminalSize size = terminal_size(STDOUT_FILENO);
  form.columns = first_known(options.columns, size.columns, "COLUMNS", 80);
  form.rows = first_known(options.rows, size.rows, "LINES", 24);
  RunFiles files(run);
  files.update();
  for (const std::string& line : rendered_frame(files.view(), form, color)) std::cout << line << '\n';
  return 0;
}

}  // namespace inkling
