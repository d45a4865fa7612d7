// What training a sentencepiece model takes from the machine, however much text there is.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <string>

#include "base/random.h"
#include "tests/text/text_testing.h"

namespace inkling {
namespace {

#ifndef __SANITIZE_ADDRESS__  // which takes more memory for every piece that is allocated

// Lines that are one word each, no two alike, took the most memory of all kinds of text that were tried: 55 bytes for
// every byte of the sample, with bpe. (The vocabulary is small, because a larger one only takes more time.)
TEST(SentencepieceSlow, TrainingStaysBelowAGiBOnAnyText) {
  SentencepieceTrainer trainer({.vocab_size = 340, .model_type = PieceModel::bpe});
  std::string line(77, '\n');
  for (std::uint64_t number = 0; number < 1'000'000; ++number) {  // 77 MB
    for (std::uint64_t i = 0; i + 1 < line.size(); ++i) {
      line[i] = static_cast<char>('a' + random_below(random_key(1, Purpose::tokenizer_sample, number), i, 26));
    }
    trainer.add(line);
  }
  trainer.finish(false);
  rusage usage{};
  ::getrusage(RUSAGE_CHILDREN, &usage);  // the library runs in a process of its own
  EXPECT_GT(usage.ru_maxrss, 100 << 10);
  EXPECT_LT(usage.ru_maxrss, 1 << 20);  // KiB
}

#endif

}  // namespace
}  // namespace inkling
