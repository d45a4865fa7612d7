// One picture of a run as a terminal shows it.
#pragma once

#include <vector>

#include "watch/run_log.h"
#include "watch/text_lines.h"

namespace inkling {

struct FrameForm {
  std::size_t columns = 80, rows = 24;
  Charset charset = Charset::ascii;
  bool live = false;  // with what the keys do, in the last row
};

// What there is to say about the run at the moment `now` (seconds since 1970), the most important first: at most
// form.rows lines of at most form.columns. What is left of the rows goes to the loss curve and to the last sample.
std::vector<TextLine> make_frame(const RunView& view, const FrameForm& form, double now);

}  // namespace inkling
