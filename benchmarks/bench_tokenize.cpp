// How fast each tokenizer encodes and decodes a text, line by line, on one core: bench-tokenize FILE [VOCAB_SIZE]
// Times are of this thread's processor, so that a busy machine does not blur them; the best of several rounds counts.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>

#include "base/error.h"
#include "base/files.h"
#include "base/strings.h"
#include "config/config.h"
#include "text/build_tokenizer.h"
#include "text/line_cuts.h"

namespace {

using namespace inkling;

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double wall_seconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double best_seconds(const std::function<void()>& work) {
  double best = 1e30;
  for (int round = 0; round < 5; ++round) {
    const double start = processor_seconds();
    work();
    best = std::min(best, processor_seconds() - start);
  }
  return best;
}

void for_each_line(std::string_view text, const std::function<void(std::string_view)>& visit) {
  while (!text.empty()) {
    const std::size_t length = next_line_length(text);
    visit(text.substr(0, length));
    text.remove_prefix(length);
  }
}

void measure(const char* name, const std::string& text, double training_seconds, const Tokenizer& tokenizer) {
  std::vector<Token> tokens;
  const double encoding = best_seconds([&] {
    tokens.clear();
    for_each_line(text, [&](std::string_view line) { tokenizer.encode_line(line, tokens); });
  });
  std::string decoded;
  const double decoding = best_seconds([&] { decoded = decode(tokenizer, tokens); });
  const double megabytes = static_cast<double>(text.size()) / 1e6;
  std::printf("%-22s %8llu %10zu %8.3f %10.1f %10.1f %10.2f  %s\n", name,
              static_cast<unsigned long long>(tokenizer.vocab_size()), tokens.size(),
              static_cast<double>(text.size()) / static_cast<double>(tokens.size()), megabytes / encoding,
              megabytes / decoding, training_seconds, decoded == text ? "returns" : "IS CHANGED");
}

void measure_sentencepiece(PieceModel model, const std::string& text, std::uint64_t vocab_size) {
  SentencepieceTrainer trainer({.vocab_size = vocab_size, .model_type = model});
  const double start = wall_seconds();
  for_each_line(text, [&](std::string_view line) { trainer.add(line); });
  const auto tokenizer = trainer.finish(false);
  measure(str("sentencepiece ", word_of(model)).c_str(), text, wall_seconds() - start, *tokenizer);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("usage: bench-tokenize FILE [VOCAB_SIZE]\n", stderr);
    return 2;
  }
  try {
    const std::string text = read_small_file(argv[1]);
    if (text.empty()) throw Error::input("the file is empty");
    const std::uint64_t vocab_size = argc > 2 ? std::stoull(argv[2]) : 4096;
    std::printf("%-22s %8s %10s %8s %10s %10s %10s\n", "tokenizer", "vocab", "tokens", "B/token", "enc MB/s",
                "dec MB/s", "train s");
    measure("byte", text, 0, *make_byte_tokenizer(false));
    CharVocabularyBuilder builder;
    const double start = wall_seconds();
    for_each_line(text, [&](std::string_view line) { builder.add(line); });
    const auto char_tokenizer = builder.finish(false);
    measure("char", text, wall_seconds() - start, *char_tokenizer);
    measure_sentencepiece(PieceModel::unigram, text, vocab_size);
    measure_sentencepiece(PieceModel::bpe, text, vocab_size);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.kind());
  }
}
