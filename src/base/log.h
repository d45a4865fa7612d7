// Lines for the person, on stderr. Samples and data go to stdout; nothing else does.
#pragma once

#include <string_view>

namespace inkling {

void log_info(std::string_view message);
void log_warning(std::string_view message);
void log_error(std::string_view message);

// True where stderr is a terminal; colour also needs NO_COLOR to be unset.
bool stderr_is_terminal();
bool stderr_has_color();

}  // namespace inkling
