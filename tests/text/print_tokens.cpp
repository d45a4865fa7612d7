// What scripts/check-tokenizers asks of inkling. Texts come on stdin, each as its length in bytes (uint32) and its
// bytes.
//   print_tokens encode TOKENIZER [PATTERN]   answers each text with the processor's time in microseconds, the number
//   of
//                                             its tokens and the tokens (all uint32)
//   print_tokens open FOLDER                  does the same with the tokenizer of a folder
//   print_tokens save FOLDER NEW              writes the tokenizer of a folder into a new one, as a model is saved with
//   it
//   print_tokens learn SIZE                   learns a vocabulary from all texts and writes it as tokenizer.json, and
//   the
//                                             processor's time in seconds to stderr
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/strings.h"
#include "config/tokenizer_settings.h"
#include "text/bpe_encoder.h"
#include "text/bpe_files.h"
#include "text/bpe_trainer.h"
#include "text/tokenizer.h"

namespace {

using namespace inkling;

std::optional<Pattern> pattern_named(std::string_view name) {
  const auto& words = words_of<Pattern>;
  const auto found = std::find(words.begin(), words.end(), name);
  return found == words.end() ? std::nullopt : std::optional(static_cast<Pattern>(found - words.begin()));
}

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

bool read_text(std::string& text) {
  std::uint32_t length = 0;
  if (std::fread(&length, sizeof length, 1, stdin) != 1) return false;
  text.resize(length);
  if (std::fread(text.data(), 1, length, stdin) != length) throw Error::input("stdin ends within a text");
  return true;
}

void answer_all(const std::function<void(std::string_view, std::vector<Token>&)>& encode_text) {
  std::vector<Token> tokens;
  for (std::string text; read_text(text);) {
    tokens.assign(2, 0);
    const double start = processor_seconds();
    encode_text(text, tokens);
    tokens[0] = static_cast<Token>(1e6 * (processor_seconds() - start));
    tokens[1] = static_cast<Token>(tokens.size() - 2);
    std::fwrite(tokens.data(), sizeof tokens[0], tokens.size(), stdout);
  }
}

void learn(std::size_t size) {
  BpeTrainer trainer(Pattern::gpt2);
  double seconds = 0;
  for (std::string text; read_text(text);) {
    const double start = processor_seconds();
    trainer.add(text);
    seconds += processor_seconds() - start;
  }
  const double start = processor_seconds();
  const BpeVocabulary vocabulary = trainer.finish(size);
  std::cerr << seconds + processor_seconds() - start << '\n';
  std::cout << print_bpe_json(vocabulary);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::vector<std::string> words(argv + 1, argv + argc);
    if (words.size() >= 2 && words[0] == "encode") {
      const BpeEncoder encoder(read_bpe(words[1], pattern_named(words.size() > 2 ? words[2] : "")));
      answer_all([&](std::string_view text, std::vector<Token>& tokens) { encoder.encode(text, tokens); });
    } else if (words.size() == 2 && words[0] == "open") {
      const auto tokenizer = load_tokenizer(words[1]);
      answer_all([&](std::string_view text, std::vector<Token>& tokens) {
        const std::vector<Token> found = encode(*tokenizer, text);
        tokens.insert(tokens.end(), found.begin(), found.end());
      });
    } else if (words.size() == 3 && words[0] == "save") {
      std::filesystem::create_directory(words[2]);
      load_tokenizer(words[1])->save(words[2]);
    } else if (words.size() == 2 && words[0] == "learn") {
      learn(static_cast<std::size_t>(whole_number(words[1]).value_or(0)));
    } else {
      throw Error::input(
          "usage: print_tokens encode TOKENIZER [PATTERN], print_tokens open FOLDER, print_tokens save FOLDER NEW, or "
          "print_tokens learn SIZE");
    }
  } catch (const Error& error) {
    std::cerr << error.what() << '\n';
    return static_cast<int>(error.kind());
  }
}
