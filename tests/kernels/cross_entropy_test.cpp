#include "tests/kernels/on_every_instruction_set.h"

namespace inkling::test {
namespace {

std::vector<double> softmax(const std::vector<double>& logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  std::vector<double> p;
  double total = 0.0;
  for (const double logit : logits) {
    p.push_back(std::exp(logit - largest));
    total += p.back();
  }
  for (double& value : p) value /= total;
  return p;
}

class CrossEntropyLoop : public OnEveryInstructionSet {};

TEST_P(CrossEntropyLoop, LossAndGradientAreTheFormula) {
  for (const auto& [vocabulary, softcap] : {std::pair<std::int64_t, double>{1, 0.0},
                                            {2, 0.0},
                                            {7, 0.0},
                                            {65, 0.0},
                                            {100, 0.0},
                                            {1000, 0.0},
                                            {1, 5.0},
                                            {7, 0.5},
                                            {65, 5.0},
                                            {1000, 30.0}}) {
    const std::int64_t rows = 4;
    const double scale = 0.25;
    std::vector<float> logits = normal_numbers(1, rows * vocabulary, 4.0);
    const std::vector<std::int64_t> targets = {0, vocabulary - 1, -1, vocabulary / 2};
    double expected_loss = 0.0;
    std::vector<double> expected;
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t target = targets[static_cast<std::size_t>(row)];
      std::vector<double> capped, slope;
      for (std::int64_t i = row * vocabulary; i < (row + 1) * vocabulary; ++i) {
        const double x = logits[static_cast<std::size_t>(i)], tanh = softcap > 0 ? std::tanh(x / softcap) : 0.0;
        capped.push_back(softcap > 0 ? softcap * tanh : x);
        slope.push_back(1.0 - tanh * tanh);
      }
      std::vector<double> p = softmax(capped);
      if (target >= 0) {
        expected_loss -= std::log(p[static_cast<std::size_t>(target)]);
        p[static_cast<std::size_t>(target)] -= 1.0;
      }
      for (std::size_t i = 0; i < p.size(); ++i) expected.push_back(target >= 0 ? scale * p[i] * slope[i] : 0.0);
    }
    const double loss = loops().cross_entropy(logits.data(), targets.data(), static_cast<float>(scale),
                                              static_cast<float>(softcap), rows, vocabulary);
    // A logit that is x below the largest has the error of x, and a probability of at most e^-x: the two make up for
    // each other, so that what counts is the sum over the vocabulary and the exponential.
    const double error = rounding_error(static_cast<double>(vocabulary) + (1 + softcap) * function_roundings);
    EXPECT_NEAR(loss, expected_loss, error * std::max(1.0, expected_loss)) << vocabulary;
    EXPECT_LT(largest_error(logits, expected), scale * error) << vocabulary;
  }
}

TEST_P(CrossEntropyLoop, LogitsOfAnySizeAreShiftedFirst) {
  for (const float shift : {-1e6f, 1e6f}) {
    std::vector<float> logits = {shift + 1.0f, shift, shift - 2.0f};
    const std::vector<std::int64_t> targets = {1};
    const double loss = loops().cross_entropy(logits.data(), targets.data(), 1.0f, 0.0f, 1, 3);
    EXPECT_NEAR(loss, std::log(std::exp(1.0) + 1.0 + std::exp(-2.0)), rounding_error(3 + function_roundings));
  }
}

// Training stops on a loss that is not finite, so it must not be swallowed on the way.
TEST_P(CrossEntropyLoop, ANotANumberInTheLogitsReachesTheLoss) {
  for (std::size_t place : {0u, 40u, 69u}) {
    for (const float softcap : {0.0f, 5.0f}) {
      std::vector<float> logits = normal_numbers(1, 70);
      logits[place] = NAN;
      const std::vector<std::int64_t> targets = {3};
      EXPECT_TRUE(std::isnan(loops().cross_entropy(logits.data(), targets.data(), 1.0f, softcap, 1, 70))) << place;
    }
  }
}

INKLING_ON_EVERY_INSTRUCTION_SET(CrossEntropyLoop);

}  // namespace
}  // namespace inkling::test
