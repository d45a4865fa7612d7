// What is wrong with a machine, and for each problem one command: it mends it, or shows what has to be decided.
#pragma once

#include <string>
#include <vector>

#include "doctor/facts.h"

namespace inkling::doctor {

enum class Severity {
  cannot,   // training cannot work before it is mended
  warning,  // it works, but slowly or not as one may expect
};

struct Problem {
  Severity severity = Severity::warning;
  std::string name;     // "disk_full": stays the same for programs that read it
  std::string text;     // a sentence
  std::string command;  // for a shell
};

// Looks at the facts alone; what cannot work comes first. The rooms of a house each have a judge of their own.
std::vector<Problem> judge(const Facts& facts);

void judge_processor(const Facts& facts, std::vector<Problem>& problems);
void judge_memory(const Facts& facts, std::vector<Problem>& problems);
void judge_disks(const Facts& facts, std::vector<Problem>& problems);
void judge_graphics(const Facts& facts, std::vector<Problem>& problems);
void judge_software(const Facts& facts, std::vector<Problem>& problems);
void judge_load(const Facts& facts, std::vector<Problem>& problems);

}  // namespace inkling::doctor
