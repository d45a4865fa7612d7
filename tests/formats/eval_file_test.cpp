// llm.c's files of questions: what is read from them, and what a damaged one is refused for.
#include "formats/eval_file.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "tests/eval_file.h"
#include "tests/temporary_folder.h"

namespace inkling {
namespace {

constexpr std::uint64_t vocabulary = 50'257;

std::vector<TokenChoice> some_choices() {
  return {{{1, 2, 3}, {{4}, {5, 6}, {7, 8, 9}, {10}}, 2},
          {{50'256}, {{1, 1, 1, 1, 1}, {2}}, 0},
          {{9, 9}, {{3}, {4}, {5}}, 1}};
}

TEST(EvalFile, GivesWhatWasWritten) {
  const std::vector<TokenChoice> expected = some_choices();
  const std::vector<TokenChoice> read = read_eval_file("questions.bin", eval_file_bytes(expected), vocabulary);
  ASSERT_EQ(read.size(), expected.size());
  for (std::size_t i = 0; i < read.size(); ++i) {
    EXPECT_EQ(read[i].context, expected[i].context);
    EXPECT_EQ(read[i].endings, expected[i].endings);
    EXPECT_EQ(read[i].label, expected[i].label);
  }
}

TEST(EvalFile, CutShortAnywhereIsRefusedByName) {
  const std::string bytes = eval_file_bytes(some_choices());
  for (std::size_t length = 0; length < bytes.size(); length += length < 1000 ? 37 : 1) {
    const std::string message =
        input_error([&] { read_eval_file("questions.bin", bytes.substr(0, length), vocabulary); });
    EXPECT_TRUE(contains(message, "questions.bin: ")) << length;
  }
}

TEST(EvalFile, WithAFlippedBitIsRefusedByNameOrReadAsValid) {
  const std::string bytes = eval_file_bytes(some_choices());
  int refused = 0;
  for (std::size_t flip = 0; flip < 2000; ++flip) {
    std::string damaged = bytes;
    const std::size_t begin = flip % 4 == 0 ? 0 : 1024;  // most of the header is not used
    damaged[begin + random_below(1, flip, (flip % 4 == 0 ? 16 : bytes.size() - begin))] ^=
        static_cast<char>(1 << random_below(2, flip, 8));
    const auto error = error_of([&] {
      for (const TokenChoice& choice : read_eval_file("questions.bin", damaged, vocabulary)) {
        ASSERT_LT(choice.label, choice.endings.size());
        ASSERT_FALSE(choice.context.empty());
      }
    });
    if (!error) continue;
    ++refused;
    EXPECT_EQ(error->kind(), ErrorKind::input);
    EXPECT_TRUE(contains(error->message(), "questions.bin: "));
  }
  EXPECT_GT(refused, 500);  // the header's sixteen bytes alone
}

// Puts `value` at 16-bit number `place` behind the header.
std::string with(std::size_t place, std::uint16_t value) {
  std::string bytes = eval_file_bytes(some_choices());
  bytes[1024 + 2 * place] = static_cast<char>(value & 255);
  bytes[1024 + 2 * place + 1] = static_cast<char>(value >> 8);
  return bytes;
}

TEST(EvalFile, NamesTheExampleTheByteAndTheField) {
  const auto refusal = [](const std::string& bytes, std::uint64_t vocab_size = vocabulary) {
    return input_error([&] { read_eval_file("questions.bin", bytes, vocab_size); });
  };
  EXPECT_TRUE(contains(refusal(with(0, 1)), "example 0, up to byte 1026: START_EXAMPLE is 1 and must be 65535"));
  EXPECT_TRUE(contains(refusal(with(1, 44)), "EXAMPLE_BYTES is 44, and the example takes 40"));
  EXPECT_TRUE(contains(refusal(with(2, 7)), "EXAMPLE_INDEX is 7 and must be 0"));
  EXPECT_TRUE(contains(refusal(with(3, 4)), "LABEL is 4, and there are 4 completions"));
  EXPECT_TRUE(contains(refusal(with(4, 1)), "NUM_COMPLETIONS is 1 and must be at least 2"));
  EXPECT_TRUE(contains(refusal(with(5, 0)), "the context has no token"));
  EXPECT_TRUE(contains(refusal(with(9, 0)), "completion 0 has no token"));
  EXPECT_TRUE(
      contains(refusal(with(9, 60'000)), "completion 0 has 60000 tokens, and the file ends before the last of them"));
  EXPECT_TRUE(
      contains(refusal(with(6, 65'000)), "a token of the context is 65000, and the model's vocabulary has 50257"));
  EXPECT_TRUE(contains(refusal(with(6, 1), 1000), "example 1, up to byte 1078: a token of the context is 50256"));
  EXPECT_TRUE(contains(refusal(eval_file_bytes(some_choices()) + "x"), "holds 1 bytes behind the last of its 3"));
  EXPECT_TRUE(contains(refusal(eval_file_bytes({})), "promises 0 examples"));
  std::string bytes = eval_file_bytes(some_choices());
  bytes[12] = 41;
  EXPECT_TRUE(contains(refusal(bytes), "its longest example has 41 bytes, and that has 40"));
  bytes[4] = 2;
  EXPECT_TRUE(contains(refusal(bytes), "is of version 2"));
  bytes[0] = 0;
  EXPECT_TRUE(contains(refusal(bytes), "instead of 20240522"));
  EXPECT_TRUE(contains(refusal("short"), "holds 5 bytes, less than a header of 1024"));
}

}  // namespace
}  // namespace inkling
