// Attention as JSON, for programs that read it: docs/formats.md, "Attention".
#pragma once

#include <iosfwd>
#include <optional>

#include "attend/attend.h"
#include "attend/attended_text.h"

namespace inkling {

// Writes one line: the weights of all heads, or of `only` one head everything. Numbers are the shortest that read back
// as the same float32. Row i of a matrix of tokens ends with token i, because nothing looks ahead.
void print_json(std::ostream& out, const AttendedText& text, const std::optional<HeadChoice>& only);

}  // namespace inkling
