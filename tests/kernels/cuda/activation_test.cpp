// The activations of the MLP with their bias, and sums over rows.
#include "device_array.h"

namespace inkling {
namespace {

double activate(double x, Activation activation) {
  const double positive = x > 0.0 ? x : 0.0;
  if (activation == Activation::relu) return positive;
  if (activation == Activation::relu_squared) return positive * positive;
  if (activation == Activation::gelu) return 0.5 * x * std::erfc(-x * M_SQRT1_2);
  return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
}
double derivative_of(double x, Activation activation) {
  if (activation == Activation::relu) return x > 0 ? 1 : 0;
  return (activate(x + 1e-5, activation) - activate(x - 1e-5, activation)) / 2e-5;  // right to 1e-10
}

// An exponential and a division (tanh) or a series (erf); its derivative has another exponential.
const double forward_roundings = 2 * function_roundings, backward_roundings = 4 * function_roundings;

class ColumnKernels : public DeviceKernels {};

TEST_P(ColumnKernels, ActivationForwardAddsTheBias) {
  on_every_layout([&]<typename Element>(std::size_t misplaced) {
    for (const Activation activation :
         {Activation::gelu_tanh, Activation::gelu, Activation::relu, Activation::relu_squared}) {
      auto pre = normals<Element>(rows * channels, 1);
      const auto bias = normals<Element>(channels, 2);
      const DeviceArray<Element> device_pre(pre, misplaced), device_bias(bias, misplaced),
          out(rows * channels, misplaced);
      std::vector<double> wanted;
      for (std::size_t i = 0; i < pre.size(); ++i) {
        pre[i] = rounded_to<Element>(pre[i] + bias[i % bias.size()]);
        wanted.push_back(activate(pre[i], activation));
      }
      cuda_kernels<Element>().activation_forward(device_pre.get(), device_bias.get(), out.get(), activation, rows,
                                                 channels, nullptr);
      EXPECT_EQ(device_pre.read(), pre);
      expect_near<Element>(out.read(), wanted, rounding_error(forward_roundings), "out");

      cuda_kernels<Element>().activation_forward(device_pre.get(), nullptr, out.get(), activation, rows, channels,
                                                 nullptr);
      EXPECT_EQ(device_pre.read(), pre);
      expect_near<Element>(out.read(), wanted, rounding_error(forward_roundings), "out without a bias");
    }
  });
}

TEST_P(ColumnKernels, ActivationBackwardAddsToTheGradientOfTheBias) {
  on_every_layout([&]<typename Element>(std::size_t misplaced) {
    for (const Activation activation :
         {Activation::gelu_tanh, Activation::gelu, Activation::relu, Activation::relu_squared}) {
      const auto pre = normals<Element>(rows * channels, 1), dout = normals<Element>(rows * channels, 2);
      const auto dbias = normals<float>(channels, 3);
      std::vector<double> wanted, sums(dbias.begin(), dbias.end());
      for (std::size_t i = 0; i < pre.size(); ++i) {
        wanted.push_back(dout[i] * derivative_of(pre[i], activation));
        sums[i % sums.size()] += wanted.back();
      }
      const DeviceArray<Element> device_pre(pre, misplaced), device_dout(dout, misplaced);
      const DeviceArray<float> device_dbias(dbias), scratch(column_scratch(channels));
      cuda_kernels<Element>().activation_backward(device_dout.get(), device_pre.get(), device_dout.get(),
                                                  device_dbias.get(), scratch.get(), activation, rows, channels,
                                                  nullptr);
      expect_near<Element>(device_dout.read(), wanted, rounding_error(backward_roundings) * largest(dout), "dpre");
      expect_near<float>(device_dbias.read(), sums,
                         sum_error(static_cast<double>(rows + 1), backward_roundings) * largest(dout), "dbias");
      scratch.read();  // its guards

      const DeviceArray<Element> again(dout, misplaced), dpre(rows * channels, misplaced);
      cuda_kernels<Element>().activation_backward(again.get(), device_pre.get(), dpre.get(), nullptr, nullptr,
                                                  activation, rows, channels, nullptr);
      EXPECT_EQ(dpre.read(), device_dout.read());
    }
  });
}

TEST_P(ColumnKernels, ColumnSumsAreAdded) {
  on_every_layout([&]<typename Element>(std::size_t misplaced) {
    const auto x = normals<Element>(rows * channels, 1);
    const auto before = normals<float>(channels, 2);
    std::vector<double> wanted(before.begin(), before.end());
    for (std::size_t i = 0; i < x.size(); ++i) wanted[i % wanted.size()] += x[i];
    const DeviceArray<Element> device_x(x, misplaced);
    const DeviceArray<float> sums(before), scratch(column_scratch(channels));
    cuda_kernels<Element>().add_column_sums(device_x.get(), sums.get(), scratch.get(), rows, channels, nullptr);
    expect_near<float>(sums.read(), wanted, sum_error(static_cast<double>(rows + 1)), "sums");
    scratch.read();  // its guards
  });
}

// 9000 rows are more than all blocks take at first.
INKLING_ON_SHAPES(ColumnKernels, Shape{0, 8}, Shape{1, 1}, Shape{3, 7}, Shape{64, 65}, Shape{100, 128}, Shape{17, 768},
                  Shape{2, 3072}, Shape{9000, 8});

}  // namespace
}  // namespace inkling
