// Examines this machine: finds all facts, and estimates or times the configurations.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "doctor/facts.h"
#include "doctor/judge.h"

namespace inkling::doctor {

struct Examination {
  std::vector<std::string> configs;    // none: those that inkling comes with
  std::vector<std::string> overrides;  // "section.key=value" for each of them
  bool measure = false;                // times some steps of each
};

// The configurations that belong to the program at `program`: configs/ beside build/ in a repository, or
// share/inkling/configs where it is installed. None if there are none.
std::vector<std::string> shipped_configs(const std::filesystem::path& program);

// Takes about two seconds, and as much as ten more for each configuration that is timed, which is said on stderr.
// Throws Error input for a configuration that cannot be read; what the machine lacks is a fact.
Facts examine(const Examination& examination);

// Shows facts and problems: as text that fits into 80 columns, or as one JSON object with the same facts.

// Every line has at most 80 columns, whatever the facts hold. A command that is longer goes on behind a backslash.
std::string as_text(const Facts& facts, const std::vector<Problem>& problems);

// The object that docs/formats.md describes, over several lines.
std::string as_json(const Facts& facts, const std::vector<Problem>& problems);

}  // namespace inkling::doctor
