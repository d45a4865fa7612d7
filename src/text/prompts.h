// Where prompts come from, the command line, files or standard input, and the tokens that they become.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace inkling {

struct Prompts {
  std::vector<std::string> texts;
  std::vector<std::string> origins;  // of each, for messages: a flag, "standard input", a file's name
};

// Returns the prompts that were given by `flag`, such as "--prompt" ("-" stands for standard input), then those in
// files, each without one new line at its end. If there is neither, it is standard input if that is not a terminal,
// else one empty prompt. Throws Error input for a file that cannot be read or for more than 64 MiB.
Prompts read_prompts(const std::vector<std::string>& given, const std::vector<std::string>& files,
                     const std::string& flag);

// Calls `check` with each prompt, and puts the prompt's origin in front of an Error that it throws.
void check_prompts(const Prompts& prompts, const std::function<void(const std::string& text)>& check);

// Says of each prompt in which the name of a special token stands that it is ordinary text there, and that `flag`, if
// there is one, makes it the token.
void hint_at_names(const Tokenizer& tokenizer, const Prompts& prompts, std::string_view flag);

// What the name of a special token in a prompt is: ordinary text, as in every text, or the token.
enum class NamesInPrompt { text, tokens };

// Returns the tokens that a text begins with. The prompt is the beginning of a document, so tokenizer.first_token()
// goes in front, which is the separator; where there is none, an empty prompt is the separator or a new line. Throws
// Error input for characters without a token, and for an empty prompt if there is neither separator nor new line.
// With NamesInPrompt::tokens a prompt that names the first token itself has it once, and what stands behind a special
// token is encoded as the tokenizer's maker has it (Tokenizer::begins_text()).
std::vector<Token> encode_prompt(const Tokenizer& tokenizer, std::string_view prompt,
                                 NamesInPrompt names = NamesInPrompt::text);

}  // namespace inkling
