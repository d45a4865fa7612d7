// Shows a run in a terminal, live or once.
#pragma once

#include <filesystem>
#include <optional>

#include "base/terminal_text.h"

namespace inkling {

struct WatchOptions {
  std::filesystem::path run;            // empty: the one that trains below runs/
  bool once = false;                    // one picture, without taking the screen
  std::size_t columns = 0, rows = 0;    // 0: the terminal's, else $COLUMNS and $LINES, else 80 x 24
  std::optional<bool> color = {};       // none: where standard output is a terminal and NO_COLOR is not set
  std::optional<Charset> charset = {};  // none: as the locale says
};

// Returns the exit code: 0, or 128 + the number of the signal that ended it. Where standard output is no terminal, or
// one that cannot place its cursor (TERM=dumb), it shows the run once. Live, it waits for a folder that is not there
// yet. Throws what RunFiles and find_running() throw.
int watch(const WatchOptions& options);

}  // namespace inkling
