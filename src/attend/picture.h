// One head as a picture for a paper or a page: the tokens twice, and a line from each to those that it looks at.
#pragma once

#include <string>

#include "attend/attend.h"
#include "attend/attended_text.h"

namespace inkling {

// Returns an SVG file. The tokens stand in reading order from top to bottom: at the left those that look, each with its
// largest weight, at the right those that are looked at. The more weight, the thicker and stronger a line; weights
// below 0.01 have none. It is drawn on white, and on dark where the reader's system asks for dark colours.
std::string head_picture(const AttendedText& text, HeadChoice shown);

}  // namespace inkling
