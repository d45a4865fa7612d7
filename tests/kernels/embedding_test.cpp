#include "tests/kernels/on_every_instruction_set.h"

namespace inkling::test {
namespace {

constexpr std::int64_t vocabulary = 5;
constexpr std::int64_t time = 4;
const std::vector<std::int64_t> tokens = {0, 4, 2, 2, 1, 0, 4, 4};  // two rows of four

class EmbeddingLoop : public OnEveryInstructionSet {};

TEST_P(EmbeddingLoop, ForwardAddsTheTokensRowAndThePositionsRow) {
  for (const std::int64_t channels : odd_widths) {
    const std::vector<float> token_table = normal_numbers(1, vocabulary * channels);
    const std::vector<float> position_table = normal_numbers(2, time * channels);
    const auto rows = static_cast<std::int64_t>(tokens.size());
    std::vector<float> expected, actual(tokens.size() * static_cast<std::size_t>(channels));
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t i = 0; i < channels; ++i) {
        expected.push_back(token_table[static_cast<std::size_t>(tokens[static_cast<std::size_t>(row)] * channels + i)] +
                           position_table[static_cast<std::size_t>(row % time * channels + i)]);
      }
    }
    for (const auto& [first, count] : {std::pair<std::int64_t, std::int64_t>{0, 3}, {3, rows - 3}}) {
      loops().embedding_forward(tokens.data(), token_table.data(), position_table.data(), actual.data(), first, count,
                                time, channels);
    }
    EXPECT_EQ(actual, expected) << channels;
  }
}

TEST_P(EmbeddingLoop, BackwardAddsUpRepeatedTokensTheSameHoweverColumnsAreSplit) {
  for (const std::int64_t channels : odd_widths) {
    const auto rows = static_cast<std::int64_t>(tokens.size());
    const std::vector<float> dout = normal_numbers(3, rows * channels);
    std::vector<double> expected_tokens(static_cast<std::size_t>(vocabulary * channels), 0.5);
    std::vector<double> expected_positions(static_cast<std::size_t>(time * channels), 0.25);
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t i = 0; i < channels; ++i) {
        const double value = dout[static_cast<std::size_t>(row * channels + i)];
        expected_tokens[static_cast<std::size_t>(tokens[static_cast<std::size_t>(row)] * channels + i)] += value;
        expected_positions[static_cast<std::size_t>(row % time * channels + i)] += value;
      }
    }
    const auto gradients = [&](const std::vector<std::int64_t>& cuts) {
      std::vector<float> dtokens(expected_tokens.size(), 0.5f), dpositions(expected_positions.size(), 0.25f);
      for (std::size_t part = 0; part + 1 < cuts.size(); ++part) {
        loops().embedding_backward(tokens.data(), dout.data(), dtokens.data(), dpositions.data(), rows, time, channels,
                                   cuts[part], cuts[part + 1]);
      }
      return std::pair(dtokens, dpositions);
    };
    const auto whole = gradients({0, channels});
    EXPECT_LT(largest_error(whole.first, expected_tokens), sum_error(static_cast<double>(rows)));
    EXPECT_LT(largest_error(whole.second, expected_positions), sum_error(static_cast<double>(rows)));
    EXPECT_EQ(gradients({0, channels / 3, channels / 2, channels}), whole);
  }
}

INKLING_ON_EVERY_INSTRUCTION_SET(EmbeddingLoop);

}  // namespace
}  // namespace inkling::test
