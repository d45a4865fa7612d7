// Lines for the person, on stderr. Only samples and data go to stdout.
#pragma once

#include <string_view>

namespace inkling {

void log_info(std::string_view message);
void log_warning(std::string_view message);
void log_error(std::string_view message);

// From then on information and warnings are not shown, and errors begin with `prefix`: for a process beside which
// another one tells the person.
void log_errors_alone(std::string_view prefix);

bool stderr_is_terminal();  // and a bar may move there

}  // namespace inkling
