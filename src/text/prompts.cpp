#include "text/prompts.h"

#include <unistd.h>

#include <iostream>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/strings.h"
#include "text/special_tokens.h"

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

SpecialNames names_of(const Tokenizer& tokenizer) {
  std::vector<std::string> names;
  for (const AddedToken& special : tokenizer.special_tokens()) names.push_back(special.name);
  return SpecialNames(names);
}

// The prompt's tokens, with those that it names in their places.
std::vector<Token> encode_with_names(const Tokenizer& tokenizer, std::string_view prompt) {
  const SpecialNames names = names_of(tokenizer);
  std::vector<Token> tokens;
  for (bool begins_document = true; !prompt.empty();) {
    const auto found = names.find(prompt);
    const std::vector<Token> text =
        encode(tokenizer, prompt.substr(0, found ? found->offset : prompt.size()), begins_document);
    tokens.insert(tokens.end(), text.begin(), text.end());
    if (!found) break;
    tokens.push_back(find_special_token(tokenizer, found->name).value());
    begins_document = tokenizer.begins_text(tokens.back());
    prompt.remove_prefix(found->offset + found->name.size());
  }
  return tokens;
}

}  // namespace

void hint_at_names(const Tokenizer& tokenizer, const Prompts& prompts, std::string_view flag) {
  const SpecialNames names = names_of(tokenizer);
  for (std::size_t i = 0; i < prompts.texts.size(); ++i) {
    const auto found = names.find(prompts.texts[i]);
    if (!found) continue;
    log_info(str(prompts.origins[i], ": ", found->name, " is ordinary text here", flag.empty() ? "" : "; ", flag,
                 flag.empty() ? "" : " makes it the special token"));
  }
}

Prompts read_prompts(const std::vector<std::string>& given, const std::vector<std::string>& files,
                     const std::string& flag) {
  Prompts prompts;
  const auto add = [&](std::string text, std::string origin) {
    prompts.texts.push_back(std::move(text));
    prompts.origins.push_back(std::move(origin));
  };
  for (const std::string& prompt : given) {
    if (prompt == "-")
      add(read_standard_input(), "standard input");
    else
      add(prompt, flag);
  }
  for (const std::string& file : files) add(without_last_newline(read_small_file_or_pipe(file)), file);
  if (prompts.texts.empty() && ::isatty(STDIN_FILENO) == 0) add(read_standard_input(), "standard input");
  if (prompts.texts.empty()) add("", flag);
  return prompts;
}

void check_prompts(const Prompts& prompts, const std::function<void(const std::string& text)>& check) {
  for (std::size_t i = 0; i < prompts.texts.size(); ++i) {
    try {
      check(prompts.texts[i]);
    } catch (const Error& error) {
      throw Error(error.kind(), str(prompts.origins[i], ": ", error.message()));
    }
  }
}

std::vector<Token> encode_prompt(const Tokenizer& tokenizer, std::string_view prompt, NamesInPrompt names) {
  std::vector<Token> tokens;
  if (const auto first = tokenizer.first_token()) tokens.push_back(*first);
  if (prompt.empty() && tokens.empty() && tokenizer.separator()) tokens.push_back(*tokenizer.separator());
  const bool needs_new_line = prompt.empty() && tokens.empty();
  try {
    const std::string_view given = needs_new_line ? "\n" : prompt;
    const bool by_name = names == NamesInPrompt::tokens;
    const std::vector<Token> text = by_name ? encode_with_names(tokenizer, given) : encode(tokenizer, given);
    if (by_name && !tokens.empty() && !text.empty() && text.front() == tokens.back()) tokens.clear();
    tokens.insert(tokens.end(), text.begin(), text.end());
  } catch (const Error&) {
    if (!needs_new_line) throw;
    throw Error::input(
        "the prompt is empty, and the vocabulary has neither a separator nor a new line to begin with: "
        "write a prompt");
  }
  return tokens;
}

}  // namespace inkling
