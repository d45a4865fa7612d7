// Lines for the person, on stderr. Only samples and data go to stdout.
#pragma once

#include <string_view>

namespace inkling {

void log_info(std::string_view message);
void log_warning(std::string_view message);
void log_error(std::string_view message);

bool stderr_is_terminal();

}  // namespace inkling
