// One line of a .jsonl file: the string in one field of a JSON object.
#pragma once

#include <string>
#include <string_view>

#include "data/source_reader.h"

namespace inkling {

// The value of the outermost object's `field` (the last one, if it is there twice). Everything else on the line is
// checked to be JSON and passed over. Error input at `place` for a line that is no JSON (with the column), no object,
// or has no such field (naming those it has) or one that is no string.
std::string read_json_field(std::string_view line, const std::string& field, const Place& place);

}  // namespace inkling
