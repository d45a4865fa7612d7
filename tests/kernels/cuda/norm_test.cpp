#include "device_array.h"

namespace inkling {
namespace {

struct Normalized {
  std::vector<double> out, mean, rstd;
};

Normalized normalized(const std::vector<float>& x, const std::vector<float>& weight, const std::vector<float>& bias,
                      const NormForm& form, std::int64_t rows, std::int64_t channels) {
  Normalized result;
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* const values = x.data() + row * channels;
    double mean = 0, variance = 0;
    for (std::int64_t i = 0; i < channels && form.kind == NormKind::layernorm; ++i) {
      mean += static_cast<double>(values[i]) / static_cast<double>(channels);
    }
    for (std::int64_t i = 0; i < channels; ++i) variance += (values[i] - mean) * (values[i] - mean);
    const double rstd = 1.0 / std::sqrt(variance / static_cast<double>(channels) + form.epsilon);
    result.mean.push_back(mean);
    result.rstd.push_back(rstd);
    for (std::int64_t i = 0; i < channels; ++i) {
      const auto column = static_cast<std::size_t>(i);
      result.out.push_back((values[i] - mean) * rstd * weight[column] + (bias.empty() ? 0.0f : bias[column]));
    }
  }
  return result;
}

class NormKernels : public DeviceKernels {
 protected:
  // Two sums over the channels: the mean and the variance.
  static constexpr NormForm forms[] = {{}, {NormKind::rmsnorm, 1e-3f}};
  double statistics_error() const { return rounding_error(2 * static_cast<double>(channels) + function_roundings); }
};

TEST_P(NormKernels, ForwardAddsTheBranchAndNormalizes) {
  on_every_layout([&]<typename Element>(std::size_t misplaced) {
    const auto x = normals<Element>(rows * channels, 1), branch = normals<Element>(rows * channels, 2),
               weight = normals<Element>(channels, 3), bias = normals<Element>(channels, 4);
    std::vector<float> added = x;
    for (std::size_t i = 0; i < x.size(); ++i) added[i] = rounded_to<Element>(x[i] + branch[i]);
    const Normalized wanted = normalized(added, weight, bias, {}, rows, channels);

    const DeviceArray<Element> dx(x, misplaced), dbranch(branch, misplaced), dweight(weight, misplaced),
        dbias(bias, misplaced), dsum(rows * channels, misplaced), dout(rows * channels, misplaced);
    const DeviceArray<float> dmean(rows), drstd(rows);
    cuda_kernels<Element>().norm_forward(dx.get(), dbranch.get(), dsum.get(), dout.get(), dmean.get(), drstd.get(),
                                         dweight.get(), dbias.get(), {}, rows, channels, nullptr);
    EXPECT_EQ(dsum.read(), added);
    // A row of one channel has variance 0 and rstd 316, so an error of the mean would count 316 times; it has none.
    expect_near<Element>(dout.read(), wanted.out, statistics_error(), "out");
    expect_near<float>(dmean.read(), wanted.mean, statistics_error(), "mean");
    expect_near<float>(drstd.read(), wanted.rstd, statistics_error(), "rstd");
  });
}

TEST_P(NormKernels, ForwardTakesNeitherBranchNorBias) {
  on_every_layout([&]<typename Element>(std::size_t misplaced) {
    for (const NormForm& form : forms) {
      const auto x = normals<Element>(rows * channels, 1), weight = normals<Element>(channels, 3);
      const Normalized wanted = normalized(x, weight, {}, form, rows, channels);
      const DeviceArray<Element> dx(x, misplaced), dweight(weight, misplaced), dout(rows * channels, misplaced);
      const DeviceArray<float> dmean(rows), drstd(rows);
      cuda_kernels<Element>().norm_forward(dx.get(), nullptr, dx.get(), dout.get(), dmean.get(), drstd.get(),
                                           dweight.get(), nullptr, form, rows, channels, nullptr);
      EXPECT_EQ(dx.read(), x);
      expect_near<Element>(dout.read(), wanted.out, statistics_error(), "out");
    }
  });
}

// Gradients by the formula, in double, from the mean and rstd that the kernel gets.
struct Gradients {
  std::vector<double> dx, dweight, dbias;
};

Gradients gradients(const std::vector<float>& dout, const std::vector<float>& dsum, const std::vector<float>& sum,
                    const std::vector<float>& mean, const std::vector<float>& rstd, const std::vector<float>& weight,
                    bool centered, Gradients result) {
  const std::size_t channels = weight.size();
  for (std::size_t row = 0; row < mean.size(); ++row) {
    std::vector<double> g(channels), n(channels);
    double mean_g = 0, mean_gn = 0;
    for (std::size_t i = 0; i < channels; ++i) {
      const double upstream = dout[row * channels + i];
      n[i] = (static_cast<double>(sum[row * channels + i]) - mean[row]) * rstd[row];
      g[i] = upstream * weight[i];
      if (centered) mean_g += g[i] / static_cast<double>(channels);
      mean_gn += g[i] * n[i] / static_cast<double>(channels);
      result.dweight[i] += upstream * n[i];
      result.dbias[i] += upstream;
    }
    for (std::size_t i = 0; i < channels; ++i) {
      result.dx.push_back((dsum.empty() ? 0.0 : dsum[row * channels + i]) +
                          rstd[row] * (g[i] - mean_g - n[i] * mean_gn));
    }
  }
  return result;
}

TEST_P(NormKernels, BackwardAddsToTheGradientsOfTheWeights) {
  for (const auto& [form, with_options] :
       {std::pair(forms[0], true), std::pair(forms[0], false), std::pair(forms[1], false)}) {
    on_every_layout([&]<typename Element>(std::size_t misplaced) {
      const auto sum = normals<Element>(rows * channels, 1), dout = normals<Element>(rows * channels, 2),
                 weight = normals<Element>(channels, 4);
      const auto dsum = with_options ? normals<Element>(rows * channels, 3) : std::vector<float>();
      const auto dweight = normals<float>(channels, 5), dbias = normals<float>(channels, 6);
      const auto mean = normals<float>(rows, 7);
      std::vector<float> rstd;
      for (const float value : mean) rstd.push_back(0.5f + std::fabs(value));
      const Gradients wanted = gradients(dout, dsum, sum, mean, rstd, weight, form.kind == NormKind::layernorm,
                                         {{}, {dweight.begin(), dweight.end()}, {dbias.begin(), dbias.end()}});

      const DeviceArray<Element> device_dout(dout, misplaced), device_dsum(dsum, misplaced), device_sum(sum, misplaced),
          device_weight(weight, misplaced), dx(rows * channels, misplaced);
      const DeviceArray<float> device_mean(mean), device_rstd(rstd), device_dweight(dweight), device_dbias(dbias),
          scratch(norm_scratch(channels));
      cuda_kernels<Element>().norm_backward(device_dout.get(), with_options ? device_dsum.get() : nullptr,
                                            device_sum.get(), device_mean.get(), device_rstd.get(), device_weight.get(),
                                            dx.get(), device_dweight.get(), with_options ? device_dbias.get() : nullptr,
                                            scratch.get(), form, rows, channels, nullptr);
      // mean and rstd are not the rows' own here, so that terms are as large as the largest result.
      const double sums = 2 * static_cast<double>(channels) + function_roundings;
      expect_near<Element>(dx.read(), wanted.dx, rounding_error(sums) * largest(wanted.dx), "dx");
      expect_near<float>(device_dweight.read(), wanted.dweight,
                         rounding_error(static_cast<double>(rows + 1)) * largest(wanted.dweight), "dweight");
      const double bias_error = sum_error(static_cast<double>(rows + 1));
      if (with_options) expect_near<float>(device_dbias.read(), wanted.dbias, bias_error, "dbias");
      scratch.read();  // its guards

      // The same bits where the weights have no gradient.
      const DeviceArray<Element> without(rows * channels, misplaced);
      cuda_kernels<Element>().norm_backward(device_dout.get(), with_options ? device_dsum.get() : nullptr,
                                            device_sum.get(), device_mean.get(), device_rstd.get(), device_weight.get(),
                                            without.get(), nullptr, nullptr, scratch.get(), form, rows, channels,
                                            nullptr);
      EXPECT_EQ(without.read(), dx.read());

      // The same bits again, and where dx is dout.
      if (!with_options) return;
      const DeviceArray<float> again(dweight);
      cuda_kernels<Element>().norm_backward(device_dout.get(), with_options ? device_dsum.get() : nullptr,
                                            device_sum.get(), device_mean.get(), device_rstd.get(), device_weight.get(),
                                            device_dout.get(), again.get(), nullptr, scratch.get(), form, rows,
                                            channels, nullptr);
      EXPECT_EQ(device_dout.read(), dx.read());
      EXPECT_EQ(again.read(), device_dweight.read());
    });
  }
}

// One warp a row up to 1024 channels, then a block; 2060 rows are more than all blocks take at first.
INKLING_ON_SHAPES(NormKernels, Shape{0, 8}, Shape{1, 1}, Shape{3, 7}, Shape{64, 65}, Shape{100, 128}, Shape{17, 768},
                  Shape{5, 1023}, Shape{9, 1600}, Shape{1, 8192}, Shape{2060, 8});

}  // namespace
}  // namespace inkling
