// A document in a file of JSON: the string in one field of an object.
#pragma once

#include <string>
#include <string_view>

#include "data/source_reader.h"

namespace inkling {

// The value of the outermost object's `field`. Everything else on the line is checked to be JSON and passed over.
// Throws Error input at `place` for a line that is not JSON (with the column) or not an object, and for a field that is
// missing (naming those that are there), given twice or not a string.
std::string read_json_field(std::string_view line, const std::string& field, const Place& place);

// Does the same with a value of a .json file (JsonElements), which begins at `place` and may also be a string.
std::string read_json_element(std::string_view element, const std::string& field, const Place& place);

}  // namespace inkling
