#include <numbers>

#include "tests/kernels/on_every_instruction_set.h"

namespace inkling::test {
namespace {

// GELU is x Phi(x), or its approximation by tanh (Hendrycks, Gimpel 2016).
double activate(double x, Activation activation) {
  const double positive = x > 0.0 ? x : 0.0;
  if (activation == Activation::relu) return positive;
  if (activation == Activation::relu_squared) return positive * positive;
  if (activation == Activation::gelu) return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
  return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

double slope_of(double x, Activation activation) {
  if (activation == Activation::relu) return x > 0.0 ? 1.0 : 0.0;
  const double h = 1e-5;
  return (activate(x + h, activation) - activate(x - h, activation)) / (2.0 * h);
}

// An exponential and a division (tanh) or a series (erf); its slope has another exponential.
const double forward_error = rounding_error(2 * function_roundings);
const double slope_error = rounding_error(4 * function_roundings);

constexpr Activation all_activations[] = {Activation::gelu_tanh, Activation::gelu, Activation::relu,
                                          Activation::relu_squared};

class ActivationLoop : public OnEveryInstructionSet {};

TEST_P(ActivationLoop, ForwardAddsTheBiasAndIsTheFormula) {
  for (const Activation activation : all_activations) {
    for (const std::int64_t channels : odd_widths) {
      for (const bool with_bias : {false, true}) {
        const std::int64_t rows = 3;
        std::vector<float> pre = normal_numbers(1, rows * channels, 3.0);
        const std::vector<float> bias = normal_numbers(2, channels);
        std::vector<double> shifted, expected;
        for (std::size_t i = 0; i < pre.size(); ++i) {
          shifted.push_back(pre[i] + (with_bias ? bias[i % bias.size()] : 0.0f));
          expected.push_back(activate(shifted.back(), activation));
        }
        std::vector<float> out(pre.size());
        loops().activation_forward(pre.data(), with_bias ? bias.data() : nullptr, out.data(), activation, rows,
                                   channels);
        EXPECT_LT(largest_error(pre, shifted), rounding_error(1)) << "pre must hold x W + b for the backward pass";
        EXPECT_LT(largest_error(out, expected), forward_error) << channels << " channels, bias " << with_bias;
      }
    }
  }
}

TEST_P(ActivationLoop, BackwardIsTheSlopeAndAddsTheBiasGradient) {
  for (const Activation activation : all_activations) {
    for (const std::int64_t channels : odd_widths) {
      const std::int64_t rows = 3;
      const std::vector<float> pre = normal_numbers(1, rows * channels, 3.0);
      const std::vector<float> dout = normal_numbers(2, rows * channels);
      std::vector<double> expected, expected_bias(static_cast<std::size_t>(channels), 0.5);
      for (std::size_t i = 0; i < pre.size(); ++i) {
        expected.push_back(dout[i] * slope_of(pre[i], activation));
        expected_bias[i % expected_bias.size()] += expected.back();
      }
      std::vector<float> dpre = dout;  // in place is allowed
      std::vector<float> dbias(static_cast<std::size_t>(channels), 0.5f);
      loops().activation_backward(dpre.data(), pre.data(), dpre.data(), dbias.data(), activation, rows, channels);
      const double error = slope_error * largest(dout);
      EXPECT_LT(largest_error(dpre, expected), error) << channels;
      EXPECT_LT(largest_error(dbias, expected_bias), static_cast<double>(rows) * error) << channels;

      std::vector<float> without_bias(pre.size());
      loops().activation_backward(dout.data(), pre.data(), without_bias.data(), nullptr, activation, rows, channels);
      EXPECT_EQ(without_bias, dpre);
    }
  }
}

// The gate's activation, times the value that stands `channels` behind it.
TEST_P(ActivationLoop, GatedIsTheProductAndItsDerivatives) {
  const auto gate = [](double x, Activation activation) {
    return activation == Activation::swiglu ? x / (1.0 + std::exp(-x)) : activate(x, Activation::gelu);
  };
  for (const Activation activation : {Activation::swiglu, Activation::geglu}) {
    for (const std::int64_t channels : odd_widths) {
      const std::int64_t rows = 3;
      std::vector<float> pre = normal_numbers(1, rows * 2 * channels, 2.0);
      const std::vector<float> bias = normal_numbers(2, 2 * channels), dout = normal_numbers(3, rows * channels);
      std::vector<double> shifted, out, dpre(pre.size()), dbias(bias.size(), 0.5);
      for (std::size_t i = 0; i < pre.size(); ++i) shifted.push_back(pre[i] + bias[i % bias.size()]);
      for (std::size_t i = 0; i < dout.size(); ++i) {
        const auto width = static_cast<std::size_t>(channels), column = i % width;
        const std::size_t place = i / width * 2 * width + column;
        const double x = shifted[place], value = shifted[place + width], h = 1e-5;
        out.push_back(gate(x, activation) * value);
        dpre[place] = dout[i] * value * (gate(x + h, activation) - gate(x - h, activation)) / (2.0 * h);
        dpre[place + width] = dout[i] * gate(x, activation);
        dbias[column] += dpre[place];
        dbias[column + width] += dpre[place + width];
      }
      std::vector<float> actual(dout.size()), gradient(pre.size()), sums(bias.size(), 0.5f);
      loops().activation_forward(pre.data(), bias.data(), actual.data(), activation, rows, channels);
      loops().activation_backward(dout.data(), pre.data(), gradient.data(), sums.data(), activation, rows, channels);
      const double size = largest(pre);
      EXPECT_LT(largest_error(pre, shifted), rounding_error(1)) << channels;
      EXPECT_LT(largest_error(actual, out), forward_error * size) << channels;
      EXPECT_LT(largest_error(gradient, dpre), slope_error * size * largest(dout)) << channels;
      EXPECT_LT(largest_error(sums, dbias), static_cast<double>(rows) * slope_error * size * largest(dout)) << channels;
    }
  }
}

TEST_P(ActivationLoop, FarFromZeroGeluIsTheIdentityOrNothing) {
  for (const Activation activation : {Activation::gelu_tanh, Activation::gelu}) {
    std::vector<float> pre = {-1e6f, -300.0f, -40.0f, 40.0f, 300.0f, 1e6f};
    const std::vector<float> ones(pre.size(), 1.0f);
    std::vector<float> out(pre.size()), slope(pre.size());
    loops().activation_forward(pre.data(), nullptr, out.data(), activation, 1, 6);
    loops().activation_backward(ones.data(), pre.data(), slope.data(), nullptr, activation, 1, 6);
    EXPECT_LT(largest_error(out, std::vector<float>{0, 0, 0, 40, 300, 1e6}), forward_error);
    EXPECT_LT(largest_error(slope, std::vector<float>{0, 0, 0, 1, 1, 1}), slope_error);
  }
}

// Decoding runs all rows as one long row: an element's bits must not depend on where in a vector it falls.
TEST_P(ActivationLoop, AnElementsBitsDoNotDependOnItsPlace) {
  for (const Activation activation : all_activations) {
    std::vector<float> pre = normal_numbers(7, 100, 2.0);
    std::vector<float> together(pre.size());
    loops().activation_forward(pre.data(), nullptr, together.data(), activation, 1, 100);
    for (std::size_t i = 0; i < pre.size(); ++i) {
      float alone = 0.0f;
      loops().activation_forward(&pre[i], nullptr, &alone, activation, 1, 1);
      EXPECT_EQ(alone, together[i]) << i;
    }
  }
}

INKLING_ON_EVERY_INSTRUCTION_SET(ActivationLoop);

}  // namespace
}  // namespace inkling::test
