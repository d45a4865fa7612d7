// Lines for the person, on stderr. Only samples and data go to stdout.
#pragma once

#include <string_view>

namespace inkling {

void log_info(std::string_view message);
void log_warning(std::string_view message);
void log_error(std::string_view message);

// Whether stderr is a terminal, and whether it may show colour, for which NO_COLOR must also be unset.
bool stderr_is_terminal();
bool stderr_has_color();

}  // namespace inkling
