// Questions as llm.c writes them, for tests.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "formats/eval_file.h"

namespace inkling {

inline std::string eval_file_bytes(const std::vector<TokenChoice>& choices) {
  const auto number = [](std::string& bytes, std::size_t value, int width) {
    for (int i = 0; i < width; ++i) bytes += static_cast<char>(value >> (8 * i) & 255);
  };
  const auto list = [&](std::string& bytes, const std::vector<Token>& tokens) {
    number(bytes, tokens.size(), 2);
    for (const Token token : tokens) number(bytes, token, 2);
  };
  std::string examples;
  std::size_t longest = 0;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    std::string body;
    number(body, i, 2);
    number(body, choices[i].label, 2);
    number(body, choices[i].endings.size(), 2);
    list(body, choices[i].context);
    for (const std::vector<Token>& ending : choices[i].endings) list(body, ending);
    number(examples, 65'535, 2);
    number(examples, body.size() + 4, 2);
    examples += body;
    longest = std::max(longest, body.size() + 4);
  }
  std::string header;
  for (const std::size_t value : {std::size_t{20'240'522}, std::size_t{1}, choices.size(), longest}) {
    number(header, value, 4);
  }
  header.resize(1024);
  return header + examples;
}

}  // namespace inkling
