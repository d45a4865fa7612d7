// Dropout, the sum of squares and AdamW, each against the CPU's loop, its twin. Shapes are rows x channels elements.
#include <limits>

#include "device_array.h"
#include "kernels/cpu_kernels.h"

namespace inkling {
namespace {

class FlatKernels : public DeviceKernels {
 protected:
  std::int64_t size() const { return rows * channels; }
};

TEST_P(FlatKernels, DropoutDropsWhatTheCpuDrops) {
  const std::uint64_t key = random_key(3, Purpose::dropout, 5), site = 7;
  const std::uint32_t threshold = 1u << 30;  // a quarter
  on_every_layout([&]<typename Element>(std::size_t misplaced) {
    const auto x = normals<Element>(size(), 1);
    std::vector<float> wanted = x;
    const std::uint64_t first_row = 3, per_row = 123;  // where in the batch these elements begin
    cpu_kernels().dropout(wanted.data(), mix64(key + site * golden_gamma), first_row * per_row, threshold, 4.0f / 3.0f,
                          size());
    for (float& value : wanted) value = rounded_to<Element>(value);
    const DeviceArray<Element> device_x(x, misplaced), out(size(), misplaced);
    const DeviceArray<std::uint64_t> device_key(std::vector<std::uint64_t>{key, first_row});
    cuda_kernels<Element>().dropout(device_x.get(), out.get(), device_key.get(), site, threshold, 4.0f / 3.0f, size(),
                                    per_row, nullptr);
    EXPECT_EQ(out.read(), wanted);
    cuda_kernels<Element>().dropout(device_x.get(), device_x.get(), device_key.get(), site, threshold, 4.0f / 3.0f,
                                    size(), per_row, nullptr);
    EXPECT_EQ(device_x.read(), wanted);
  });
}

TEST_P(FlatKernels, SumOfSquaresIsThatOfDoubles) {
  for (const std::size_t misplaced : {0, 1}) {
    const auto x = normals<float>(size(), 1);
    const double wanted = cpu_kernels().sum_of_squares(x.data(), size());
    const DeviceArray<float> device_x(x, misplaced), out(1);
    const DeviceArray<double> scratch(square_parts);
    cuda_kernels<BFloat16>().sum_of_squares(device_x.get(), size(), scratch.get(), out.get(), nullptr);
    EXPECT_NEAR(out.read()[0], wanted, rounding_error(1) * wanted);  // to float32
    scratch.read();                                                  // its guards
  }
}

struct Optimizer {
  std::vector<float> value, moment1, moment2;
};

// The device's AdamW on copies of `before`; compute stays unset where it is not wanted.
template <typename Element>
Optimizer stepped(const Optimizer& before, const std::vector<float>& gradient, const AdamWStep& step,
                  float norm_squared, std::size_t misplaced, std::vector<float>* compute) {
  const auto n = static_cast<std::int64_t>(gradient.size());
  const DeviceArray<float> value(before.value, misplaced), moment1(before.moment1, misplaced),
      moment2(before.moment2, misplaced), device_gradient(gradient, misplaced), norm(std::vector<float>{norm_squared});
  const DeviceArray<Element> device_compute(compute == nullptr ? std::vector<float>() : *compute, misplaced);
  const DeviceArray<AdamWStep> settings(std::vector<AdamWStep>{step});
  cuda_kernels<Element>().adamw(value.get(), device_gradient.get(), moment1.get(), moment2.get(),
                                compute == nullptr ? nullptr : device_compute.get(), settings.get(), norm.get(), n,
                                nullptr);
  if (compute != nullptr) *compute = device_compute.read();
  return {value.read(), moment1.read(), moment2.read()};
}

TEST_P(FlatKernels, AdamWIsTheCpusWithItsClipping) {
  const float norm = 3.0f;
  const auto gradient = normals<float>(size(), 2);
  Optimizer before = {normals<float>(size(), 1), normals<float>(size(), 3), normals<float>(size(), 4)};
  for (float& moment : before.moment2) moment *= moment;
  for (const float max_norm : {0.0f, 1.5f, 5.0f}) {
    const float clip = max_norm == 1.5f ? 1.5f / (norm + 1e-6f) : 1.0f;
    Optimizer wanted = before;
    cpu_kernels().adamw(wanted.value.data(), gradient.data(), wanted.moment1.data(), wanted.moment2.data(),
                        {1e-3f, 0.9f, 0.99f, 1e-8f, 0.1f, clip, 0.4f, 0.05f}, size());
    const AdamWStep step = {1e-3f, 0.9f, 0.99f, 1e-8f, 0.1f, max_norm, 0.4f, 0.05f};
    on_every_layout([&]<typename Element>(std::size_t misplaced) {
      auto compute = normals<Element>(size(), 5);
      const Optimizer after = stepped<Element>(before, gradient, step, norm * norm, misplaced, &compute);
      const auto expect_same = [](const std::vector<float>& actual, const std::vector<float>& twin, const char* what) {
        // Four roundings of a moment, and of the CPU's; of a value two, and of its change, a thousandth, some more.
        expect_near<float>(actual, {twin.begin(), twin.end()}, rounding_error(2 * 4), what);
      };
      expect_same(after.value, wanted.value, "value");
      expect_same(after.moment1, wanted.moment1, "moment1");
      expect_same(after.moment2, wanted.moment2, "moment2");
      for (std::size_t i = 0; i < compute.size(); ++i) ASSERT_EQ(compute[i], rounded_to<Element>(after.value[i]));
      EXPECT_EQ(stepped<Element>(before, gradient, step, norm * norm, misplaced, nullptr).value, after.value);
    });
  }
}

TEST_P(FlatKernels, AdamWChangesNothingWhereTheNormIsNotFinite) {
  const Optimizer before = {normals<float>(size(), 1), normals<float>(size(), 3), normals<float>(size(), 4)};
  const auto gradient = normals<float>(size(), 2);
  const AdamWStep step = {1e-3f, 0.9f, 0.99f, 1e-8f, 0.1f, 1.0f, 0.4f, 0.05f};
  for (const float norm_squared : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    on_every_layout([&]<typename Element>(std::size_t misplaced) {
      const auto compute_before = normals<Element>(size(), 5);
      auto compute = compute_before;
      const Optimizer after = stepped<Element>(before, gradient, step, norm_squared, misplaced, &compute);
      EXPECT_EQ(after.value, before.value);
      EXPECT_EQ(after.moment1, before.moment1);
      EXPECT_EQ(after.moment2, before.moment2);
      EXPECT_EQ(compute, compute_before);
    });
  }
}

// What the two ends of a Muon step leave behind.
struct MuonArrays {
  std::vector<float> value, momentum, update, compute;
};

// The device's two ends of a Muon step, one behind the other, on copies of `before`.
template <typename Element>
MuonArrays stepped(const MuonArrays& before, const std::vector<float>& gradient, const MuonStep& step,
                   float norm_squared, std::size_t misplaced) {
  const auto n = static_cast<std::int64_t>(gradient.size());
  const DeviceArray<float> value(before.value, misplaced), momentum(before.momentum, misplaced),
      device_gradient(gradient, misplaced), norm(std::vector<float>{norm_squared});
  const DeviceArray<Element> update(before.update, misplaced), compute(before.compute, misplaced);
  const DeviceArray<MuonStep> settings(std::vector<MuonStep>{step});
  const auto& kernels = cuda_kernels<Element>();
  kernels.muon_momentum(momentum.get(), device_gradient.get(), update.get(), settings.get(), norm.get(), n, nullptr);
  kernels.muon_step(value.get(), update.get(), compute.get(), settings.get(), norm.get(), n, nullptr);
  return {value.read(), momentum.read(), update.read(), compute.read()};
}

TEST_P(FlatKernels, TheTwoEndsOfMuonAreTheCpusWithItsClipping) {
  const float norm = 3.0f;
  const auto gradient = normals<float>(size(), 2);
  for (const float max_norm : {0.0f, 1.5f, 5.0f}) {
    const float clip = max_norm == 1.5f ? 1.5f / (norm + 1e-6f) : 1.0f;
    on_every_layout([&]<typename Element>(std::size_t misplaced) {
      const MuonArrays before = {normals<float>(size(), 1), normals<float>(size(), 3), normals<Element>(size(), 4),
                                 normals<Element>(size(), 5)};
      std::vector<float> value = before.value, momentum = before.momentum, update(value.size());
      cpu_kernels().muon_momentum(momentum.data(), gradient.data(), update.data(), 0.95f, clip, size());
      const MuonArrays after =
          stepped<Element>(before, gradient, {0.02f, 0.95f, 0.1f, max_norm}, norm * norm, misplaced);
      cpu_kernels().muon_step(value.data(), after.update.data(), 0.02f, 0.1f, size());
      // Five roundings of an update at most, on both sides, and what is stored of it.
      expect_near<float>(after.momentum, {momentum.begin(), momentum.end()}, rounding_error(2 * 3), "momentum");
      expect_near<Element>(after.update, {update.begin(), update.end()}, rounding_error(2 * 5), "update");
      expect_near<float>(after.value, {value.begin(), value.end()}, rounding_error(2 * 4), "value");
      for (std::size_t i = 0; i < value.size(); ++i) {
        ASSERT_EQ(after.compute[i], rounded_to<Element>(after.value[i]));
      }
    });
  }
}

TEST_P(FlatKernels, MuonChangesNeitherValueNorMomentumWhereTheNormIsNotFinite) {
  const auto gradient = normals<float>(size(), 2);
  for (const float norm_squared : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    on_every_layout([&]<typename Element>(std::size_t misplaced) {
      const MuonArrays before = {normals<float>(size(), 1), normals<float>(size(), 3), normals<Element>(size(), 4),
                                 normals<Element>(size(), 5)};
      const MuonArrays after = stepped<Element>(before, gradient, {0.02f, 0.95f, 0.1f, 1.0f}, norm_squared, misplaced);
      EXPECT_EQ(after.value, before.value);
      EXPECT_EQ(after.momentum, before.momentum);
      EXPECT_EQ(after.compute, before.compute);
    });
  }
}

class LongKernels : public FlatKernels {};

TEST_P(LongKernels, SumOfSquaresOfWholeNumbersIsExact) {
  std::vector<float> x(static_cast<std::size_t>(size()));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7) - 2.0f;
  const double wanted = cpu_kernels().sum_of_squares(x.data(), size());
  const DeviceArray<float> device_x(x), out(1);
  const DeviceArray<double> scratch(square_parts);
  cuda_kernels<float>().sum_of_squares(device_x.get(), size(), scratch.get(), out.get(), nullptr);
  EXPECT_EQ(out.read()[0], static_cast<float>(wanted));  // of whole numbers, without rounding until the end
}

INKLING_ON_SHAPES(FlatKernels, Shape{0, 8}, Shape{1, 1}, Shape{3, 7}, Shape{64, 65}, Shape{100, 128}, Shape{17, 768});

// 1024 blocks take 4194304 elements at first.
INKLING_ON_SHAPES(LongKernels, Shape{1024, 4101});

}  // namespace
}  // namespace inkling
