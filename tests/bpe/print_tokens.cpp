// print_tokens TOKENIZER [PATTERN]: reads texts from stdin, each as its length in bytes (uint32) and its bytes, and
// writes the tokens of each to stdout, as their number and the tokens (uint32). For scripts/check-tokenizers to compare.
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "bpe/encoder.h"
#include "bpe/files.h"

namespace {

std::optional<inkling::Pattern> pattern_named(std::string_view name) {
  if (name == "gpt2") return inkling::Pattern::gpt2;
  if (name == "cl100k") return inkling::Pattern::cl100k;
  return name == "llama3" ? std::optional(inkling::Pattern::llama3) : std::nullopt;
}

void write(const std::vector<std::uint32_t>& numbers) {
  std::fwrite(numbers.data(), sizeof numbers[0], numbers.size(), stdout);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const inkling::BpeEncoder encoder(inkling::read_bpe(argv[1], pattern_named(argc > 2 ? argv[2] : "")));
    std::uint32_t length = 0;
    std::string text;
    while (std::fread(&length, sizeof length, 1, stdin) == 1) {
      text.resize(length);
      if (std::fread(text.data(), 1, length, stdin) != length) return 2;
      std::vector<inkling::Token> tokens;
      encoder.encode(text, tokens);
      write({static_cast<std::uint32_t>(tokens.size())});
      write(tokens);
    }
  } catch (const inkling::Error& error) {
    std::cerr << error.what() << '\n';
    return static_cast<int>(error.kind());
  }
}
