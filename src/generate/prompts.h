// Where prompts come from: the command line, files, standard input.
#pragma once

#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace inkling {

struct Prompts {
  std::vector<std::string> texts;
  std::vector<std::string> origins;  // of each, for messages: "--prompt", "standard input", a file's name
};

// Returns the prompts that were given ("-" stands for standard input), then those in files, each without one new line
// at its end. If there is neither, it is standard input if that is not a terminal, else one empty prompt. Throws Error
// input for a file that cannot be read or for more than 64 MiB.
Prompts read_prompts(const std::vector<std::string>& given, const std::vector<std::string>& files);

// Throws the errors of encode_prompt() with the prompt's origin in front.
void check_prompts(const Tokenizer& tokenizer, const Prompts& prompts);

}  // namespace inkling
