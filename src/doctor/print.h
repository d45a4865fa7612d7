// Shows facts and problems: as text that fits into 80 columns, or as one JSON object with the same facts.
#pragma once

#include <string>
#include <vector>

#include "doctor/facts.h"
#include "doctor/judge.h"

namespace inkling::doctor {

// Every line has at most 80 columns, whatever the facts hold. A command that is longer goes on behind a backslash.
std::string as_text(const Facts& facts, const std::vector<Problem>& problems);

// The object that docs/formats.md describes, over several lines.
std::string as_json(const Facts& facts, const std::vector<Problem>& problems);

}  // namespace inkling::doctor
