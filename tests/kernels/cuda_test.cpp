// Each CUDA kernel against its CPU twin on the same random arrays. Built with INKLING_CUDA only.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>
#include <vector>

#include "base/random.h"
#include "kernels/cpu_kernels.h"
#include "kernels/cuda_kernels.h"

namespace inkling {
namespace {

// An array on the device, filled from and read back to a vector.
template <typename T>
class Device {
 public:
  explicit Device(const std::vector<T>& values) : size_(values.size()) {
    EXPECT_EQ(cudaMalloc(&data_, size_ * sizeof(T)), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice), cudaSuccess);
  }
  ~Device() { cudaFree(data_); }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  T* get() const { return static_cast<T*>(data_); }
  std::vector<T> read() const {
    std::vector<T> values(size_);
    EXPECT_EQ(cudaMemcpy(values.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost), cudaSuccess);
    return values;
  }

 private:
  void* data_ = nullptr;
  std::size_t size_;
};

std::vector<float> normals(std::int64_t n, std::uint64_t key) {
  std::vector<float> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(random_normal(key, i));
  return values;
}

void expect_near(const std::vector<float>& actual, const std::vector<float>& wanted, float tolerance) {
  ASSERT_EQ(actual.size(), wanted.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], wanted[i], tolerance * (1.0f + std::fabs(wanted[i]))) << "element " << i;
  }
}

using Shape = std::tuple<std::int64_t, std::int64_t>;  // rows, channels

class CudaKernels : public testing::TestWithParam<Shape> {
 protected:
  void SetUp() override {
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) GTEST_SKIP() << "no GPU on this machine";
    std::tie(rows, channels) = GetParam();
  }

  std::size_t elements() const { return static_cast<std::size_t>(rows * channels); }
  std::vector<float> zeros(std::int64_t n) const { return std::vector<float>(static_cast<std::size_t>(n)); }
  std::vector<float> matrix(std::uint64_t key) const { return normals(rows * channels, key); }
  std::vector<float> vector(std::uint64_t key) const { return normals(channels, key); }

  std::int64_t rows = 0, channels = 0;
  const CpuKernels& cpu = cpu_kernels();
};

TEST_P(CudaKernels, LayerNormForwardMatchesItsTwin) {
  const auto x = matrix(1), branch = matrix(2), weight = vector(3), bias = vector(4);
  auto sum = zeros(rows * channels), out = sum, mean = zeros(rows), rstd = mean;
  cpu.layer_norm_forward(x.data(), branch.data(), sum.data(), out.data(), mean.data(), rstd.data(), weight.data(),
                         bias.data(), rows, channels);
  const Device dx(x), dbranch(branch), dweight(weight), dbias(bias), dsum(zeros(rows * channels)),
      dout(zeros(rows * channels)), dmean(zeros(rows)), drstd(zeros(rows));
  cuda::layer_norm_forward(dx.get(), dbranch.get(), dsum.get(), dout.get(), dmean.get(), drstd.get(), dweight.get(),
                           dbias.get(), rows, channels, nullptr);
  expect_near(dsum.read(), sum, 0);
  expect_near(dout.read(), out, 1e-5f);
  expect_near(dmean.read(), mean, 1e-6f);
  expect_near(drstd.read(), rstd, 1e-5f);
}

TEST_P(CudaKernels, LayerNormBackwardMatchesItsTwin) {
  const auto x = matrix(1), upstream = matrix(2), residual = matrix(3), weight = vector(4);
  auto out = zeros(rows * channels), mean = zeros(rows), rstd = mean, sum = x;
  cpu.layer_norm_forward(x.data(), nullptr, sum.data(), out.data(), mean.data(), rstd.data(), weight.data(), nullptr,
                         rows, channels);
  auto gradient = zeros(rows * channels), dweight = vector(5), dbias = vector(6);
  const Device dx(gradient), device_dweight(dweight), device_dbias(dbias), dupstream(upstream), dresidual(residual),
      dsum(x), dmean(mean), drstd(rstd), device_weight(weight), scratch(zeros(2 * cuda::column_scratch(channels)));
  cpu.layer_norm_backward(upstream.data(), residual.data(), x.data(), mean.data(), rstd.data(), weight.data(),
                          gradient.data(), dweight.data(), dbias.data(), rows, channels);
  cuda::layer_norm_backward(dupstream.get(), dresidual.get(), dsum.get(), dmean.get(), drstd.get(), device_weight.get(),
                            dx.get(), device_dweight.get(), device_dbias.get(), scratch.get(), rows, channels, nullptr);
  expect_near(dx.read(), gradient, 1e-4f);
  expect_near(device_dweight.read(), dweight, 1e-4f * std::sqrt(static_cast<float>(rows)));
  expect_near(device_dbias.read(), dbias, 1e-4f * std::sqrt(static_cast<float>(rows)));
}

TEST_P(CudaKernels, GeluMatchesItsTwinInBothForms) {
  for (const GeluForm form : {GeluForm::tanh, GeluForm::exact}) {
    auto pre = matrix(1), out = pre, dpre = pre, dbias = vector(3);
    const auto bias = vector(2), upstream = matrix(4);
    const Device device_pre(pre), device_out(out), device_bias(bias), device_upstream(upstream), device_dpre(dpre),
        device_dbias(dbias), scratch(zeros(cuda::column_scratch(channels)));
    cpu.gelu_forward(pre.data(), bias.data(), out.data(), form, rows, channels);
    cuda::gelu_forward(device_pre.get(), device_bias.get(), device_out.get(), form, rows, channels, nullptr);
    expect_near(device_pre.read(), pre, 0);
    expect_near(device_out.read(), out, 1e-6f);
    cpu.gelu_backward(upstream.data(), pre.data(), dpre.data(), dbias.data(), form, rows, channels);
    cuda::gelu_backward(device_upstream.get(), device_pre.get(), device_dpre.get(), device_dbias.get(), scratch.get(),
                        form, rows, channels, nullptr);
    expect_near(device_dpre.read(), dpre, 1e-5f);
    expect_near(device_dbias.read(), dbias, 1e-4f * std::sqrt(static_cast<float>(rows)));
  }
}

TEST_P(CudaKernels, CrossEntropyMatchesItsTwin) {
  auto logits = matrix(1);
  std::vector<std::int64_t> targets(static_cast<std::size_t>(rows));
  for (std::size_t row = 0; row < targets.size(); ++row) {
    targets[row] =
        row % 5 == 4 ? -1 : static_cast<std::int64_t>(random_below(7, row, static_cast<std::uint64_t>(channels)));
  }
  const Device device_logits(logits), losses(zeros(rows));
  const Device device_targets(targets);
  const double loss = cpu.cross_entropy(logits.data(), targets.data(), 0.25f, rows, channels);
  cuda::cross_entropy(device_logits.get(), device_targets.get(), losses.get(), 0.25f, rows, channels, nullptr);
  expect_near(device_logits.read(), logits, 1e-6f);
  double total = 0;
  for (const float row : losses.read()) total += row;
  EXPECT_NEAR(total, loss, 1e-5 * (1 + std::fabs(loss)));
}

TEST_P(CudaKernels, AdamWAndDropoutMatchTheirTwins) {
  auto value = matrix(1), moment1 = matrix(3), moment2 = matrix(4);
  for (float& v : moment2) v *= v;
  const auto gradient = matrix(2);
  const AdamWSettings settings = {1e-3f, 0.9f, 0.99f, 1e-8f, 0.1f, 0.7f, 0.4f, 0.05f};
  const Device dvalue(value), dgradient(gradient), dmoment1(moment1), dmoment2(moment2);
  cpu.adamw(value.data(), gradient.data(), moment1.data(), moment2.data(), settings, rows * channels);
  cuda::adamw(dvalue.get(), dgradient.get(), dmoment1.get(), dmoment2.get(), settings, rows * channels, nullptr);
  expect_near(dvalue.read(), value, 1e-6f);
  expect_near(dmoment1.read(), moment1, 1e-6f);
  expect_near(dmoment2.read(), moment2, 1e-6f);
  cpu.dropout(value.data(), 11, 5, 1u << 30, 4.0f / 3.0f, rows * channels);
  cuda::dropout(dvalue.get(), 11, 5, 1u << 30, 4.0f / 3.0f, rows * channels, nullptr);
  expect_near(dvalue.read(), value, 1e-6f);
}

INSTANTIATE_TEST_SUITE_P(Cuda, CudaKernels,
                         testing::Values(Shape{1, 1}, Shape{3, 7}, Shape{64, 65}, Shape{100, 128}, Shape{257, 768},
                                         Shape{8, 50257}));

}  // namespace
}  // namespace inkling
