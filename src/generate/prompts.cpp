#include "generate/prompts.h"

#include <unistd.h>

#include <iostream>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/strings.h"
#include "generate/generator.h"

namespace inkling {
namespace {

std::string without_last_newline(std::string text) {
  if (!text.empty() && text.back() == '\n') text.pop_back();
  if (!text.empty() && text.back() == '\r') text.pop_back();
  return text;
}

std::string read_standard_input() {
  std::string text;
  for (std::istreambuf_iterator<char> next(std::cin), end; next != end && text.size() <= largest_small_file; ++next) {
    text += *next;
  }
  if (text.size() > largest_small_file) {
    throw Error::input(str("standard input: more than ", format_bytes(largest_small_file), " of prompt; give less"));
  }
  return without_last_newline(std::move(text));
}

}  // namespace

Prompts read_prompts(const std::vector<std::string>& given, const std::vector<std::string>& files) {
  Prompts prompts;
  const auto add = [&](std::string text, std::string origin) {
    prompts.texts.push_back(std::move(text));
    prompts.origins.push_back(std::move(origin));
  };
  for (const std::string& prompt : given) {
    if (prompt == "-")
      add(read_standard_input(), "standard input");
    else
      add(prompt, "--prompt");
  }
  for (const std::string& file : files) add(without_last_newline(read_small_file_or_pipe(file)), file);
  if (prompts.texts.empty() && ::isatty(STDIN_FILENO) == 0) add(read_standard_input(), "standard input");
  if (prompts.texts.empty()) add("", "--prompt");
  return prompts;
}

void check_prompts(const Tokenizer& tokenizer, const Prompts& prompts) {
  for (std::size_t i = 0; i < prompts.texts.size(); ++i) {
    try {
      encode_prompt(tokenizer, prompts.texts[i]);
    } catch (const Error& error) {
      throw Error(error.kind(), str(prompts.origins[i], ": ", error.message()));
    }
  }
}

}  // namespace inkling
