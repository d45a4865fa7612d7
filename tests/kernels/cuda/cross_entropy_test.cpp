#include <algorithm>
#include <limits>

#include "device_array.h"

namespace inkling {
namespace {

// Rows of 0 to 15 elements more than the vocabulary; Shape::channels is the vocabulary.
class CrossEntropyKernels : public DeviceKernels {
 protected:
  // Every fifth row is not scored; the first and the last column are targets too.
  std::vector<std::int64_t> some_targets() const {
    std::vector<std::int64_t> targets;
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto any = static_cast<std::int64_t>(
          random_below(7, static_cast<std::uint64_t>(row), static_cast<std::uint64_t>(channels)));
      targets.push_back(row % 5 == 4 ? -1 : row % 5 == 1 ? channels - 1 : row % 5 == 2 ? 0 : any);
    }
    return targets;
  }
};

struct Losses {
  std::vector<double> gradient, losses;
};

Losses losses_of(const std::vector<float>& logits, const std::vector<std::int64_t>& targets, double scale,
                 double softcap, std::int64_t vocabulary, std::int64_t stride) {
  Losses result = {std::vector<double>(logits.size()), std::vector<double>(targets.size())};
  for (std::size_t row = 0; row < targets.size(); ++row) {
    if (targets[row] < 0) continue;
    const float* const raw = logits.data() + static_cast<std::int64_t>(row) * stride;
    std::vector<double> values(raw, raw + vocabulary);
    for (double& value : values) value = softcap > 0 ? softcap * std::tanh(value / softcap) : value;
    double* const gradient = result.gradient.data() + static_cast<std::int64_t>(row) * stride;
    const double largest = *std::max_element(values.begin(), values.end());
    double total = 0;
    for (const double value : values) total += std::exp(value - largest);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double own = static_cast<std::int64_t>(i) == targets[row] ? 1.0 : 0.0;
      const double tanh = softcap > 0 ? values[i] / softcap : 0.0;
      gradient[i] = (std::exp(values[i] - largest) / total - own) * scale * (1.0 - tanh * tanh);
    }
    result.losses[row] = std::log(total) + largest - values[static_cast<std::size_t>(targets[row])];
  }
  return result;
}

TEST_P(CrossEntropyKernels, LossAndGradientAreTheTextbooks) {
  // 50257 becomes 50272: not of 16 bytes, and of 16 bytes.
  for (const auto& [unit, softcap] : {std::pair<std::int64_t, float>{1, 0.0f}, {16, 0.0f}, {1, 5.0f}, {16, 30.0f}}) {
    const std::int64_t stride = (channels + unit - 1) / unit * unit;
    on_every_layout([&]<typename Element>(std::size_t misplaced) {
      auto logits = normals<Element>(rows * stride, 1);
      for (float& logit : logits) logit *= 8;  // some probabilities near 0, some near 1
      const auto targets = some_targets();
      const float scale = 0.25f;
      const Losses wanted = losses_of(logits, targets, scale, softcap, channels, stride);
      // What the padding holds must not matter.
      for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t i = channels; i < stride; ++i) {
          logits[static_cast<std::size_t>(row * stride + i)] = std::numeric_limits<float>::quiet_NaN();
        }
      }
      const DeviceArray<Element> device_logits(logits, misplaced);
      const DeviceArray<std::int64_t> device_targets(targets);
      const DeviceArray<float> losses(rows), device_scale(std::vector<float>{scale});
      cuda_kernels<Element>().cross_entropy(device_logits.get(), device_targets.get(), losses.get(), device_scale.get(),
                                            softcap, rows, channels, stride, nullptr);
      // A logit far below the largest has a large error and a small probability, which make up for each other.
      const double error = rounding_error(static_cast<double>(channels) + (1 + softcap) * function_roundings);
      expect_near<Element>(device_logits.read(), wanted.gradient, error * scale, "gradient");
      expect_near<float>(losses.read(), wanted.losses, error, "losses");
    });
  }
}

TEST_P(CrossEntropyKernels, LargeLogitsDoNotOverflow) {
  std::vector<float> logits(static_cast<std::size_t>(rows * channels), -3e30f);
  std::vector<double> wanted(logits.size());
  for (std::int64_t row = 0; row < rows; ++row) logits[at(row, channels - 1)] = 1e30f;
  const DeviceArray<float> device_logits(logits), losses(rows), scale(std::vector<float>{1.0f});
  const DeviceArray<std::int64_t> targets(std::vector<std::int64_t>(static_cast<std::size_t>(rows), channels - 1));
  cuda_kernels<float>().cross_entropy(device_logits.get(), targets.get(), losses.get(), scale.get(), 0.0f, rows,
                                      channels, channels, nullptr);
  expect_near<float>(device_logits.read(), wanted, 0, "gradient");
  EXPECT_EQ(losses.read(), std::vector<float>(static_cast<std::size_t>(rows)));
}

// One warp a row up to 1024 columns, then a block.
INKLING_ON_SHAPES(CrossEntropyKernels, Shape{0, 8}, Shape{1, 1}, Shape{3, 7}, Shape{64, 65}, Shape{100, 128},
                  Shape{17, 1000}, Shape{6, 1025}, Shape{3, 50257});

}  // namespace
}  // namespace inkling
