// What inkling-eval shows: for people, or as JSON, one object a line with the totals last.
#pragma once

#include <iosfwd>
#include <string>

#include "evaluate/choices.h"
#include "evaluate/documents.h"
#include "evaluate/validation.h"

namespace inkling {

struct PrintSettings {
  bool json = false;
  bool each = false;  // also a line for each document or example
  std::string checkpoint;
  bool of_average = false;  // whether the averaged weights were scored
};

void print(std::ostream& out, const Evaluation& result, const PrintSettings& settings);
void print(std::ostream& out, const TextEvaluation& result, const TextSettings& text, const PrintSettings& settings);
void print(std::ostream& out, const ChoiceEvaluation& result, const ChoiceFile& file, const PrintSettings& settings);

}  // namespace inkling
