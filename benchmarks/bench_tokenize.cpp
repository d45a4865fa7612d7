// How fast each tokenizer encodes and decodes a text on one core: bench-tokenize FILE [VOCAB_SIZE]
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

void for_each_part(std::string_view text, const PartLength& part_length,
                   const std::function<void(std::string_view)>& visit) {
  while (!text.empty()) {
    const std::size_t length = part_length(text, false);
    visit(text.substr(0, length));
    text.remove_prefix(length);
  }
}

void measure(const char* name, const std::string& text, double training_seconds, const Tokenizer& tokenizer) {
  std::vector<Token> tokens;
  const double encoding = best_seconds([&] {
    tokens.clear();
    for_each_part(
        text, [&](std::string_view rest, bool more) { return tokenizer.part_length(rest, more); },
        [&](std::string_view part) { tokenizer.encode_part(part, false, tokens); });
  });
  std::string decoded;
  const double decoding = best_seconds([&] { decoded = decode(tokenizer, tokens); });
  const double megabytes = static_cast<double>(text.size()) / 1e6;
  std::printf("%-22s %8llu %10zu %8.3f %10.1f %10.1f %10.2f  %s\n", name,
              static_cast<unsigned long long>(tokenizer.vocab_size()), tokens.size(),
              static_cast<double>(text.size()) / static_cast<double>(tokens.size()), megabytes / encoding,
              megabytes / decoding, training_seconds, decoded == text ? "returns" : "IS CHANGED");
}

// Makes a tokenizer from the text, then measures it.
void measure(const std::string& name, const TokenizerConfig& config, const std::string& text) {
  const double start = wall_seconds();
  const auto read = [&](const char*, const PartLength& part_length, const TakePart& take) {
    for_each_part(text, part_length, [&](std::string_view part) { take(part, true); });
  };
  const auto tokenizer = build_tokenizer(config, read, false);
  measure(name.c_str(), text, wall_seconds() - start, *tokenizer);
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
    measure("byte", {.kind = TokenizerKind::byte}, text);
    measure("char", {.kind = TokenizerKind::character}, text);
    for (const PieceModel model : {PieceModel::unigram, PieceModel::bpe}) {
      measure(str("sentencepiece ", word_of(model)),
              {.kind = TokenizerKind::sentencepiece, .vocab_size = vocab_size, .model_type = model}, text);
    }
    measure("bpe", {.kind = TokenizerKind::bpe, .vocab_size = vocab_size}, text);
    measure("bpe, GPT-2's", {.kind = TokenizerKind::bpe, .from = "gpt2"}, text);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.kind());
  }
}
