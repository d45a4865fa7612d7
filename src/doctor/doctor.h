// Examines this machine, says what is wrong with it, and shows both: what the program inkling-doctor is made of.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "doctor/facts.h"

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

enum class Severity {
  cannot,   // training cannot work before it is solved
  warning,  // it works, but slowly or not as one may expect
};

struct Problem {
  Severity severity = Severity::warning;
  std::string name;     // "disk_full": stays the same for programs that read it
  std::string text;     // a sentence
  std::string command;  // for a shell: it solves the problem, or shows what has to be decided
};

// Returns what is wrong, as the facts alone say; what makes training impossible comes first.
std::vector<Problem> judge(const Facts& facts);

// Returns a text whose lines have at most 80 columns, whatever the facts hold. A command that is longer goes on behind
// a backslash.
std::string as_text(const Facts& facts, const std::vector<Problem>& problems);

// Returns the same facts as the JSON object that docs/formats.md describes, over several lines.
std::string as_json(const Facts& facts, const std::vector<Problem>& problems);

}  // namespace inkling::doctor
