#include "tests/kernels/on_every_instruction_set.h"

namespace inkling::test {
namespace {

struct Row {
  std::vector<double> sum, normalized, out;
  double mean = 0.0, rstd = 0.0;
};

constexpr NormForm forms[] = {{}, {NormKind::rmsnorm, 1e-3f}};

// Ba, Kiros, Hinton 2016, equation 3, or Zhang, Sennrich 2019, equation 4, in double precision.
Row normalize(const float* x, const float* branch, const std::vector<float>& weight, const float* bias,
              const NormForm& form) {
  const std::size_t channels = weight.size();
  Row row;
  for (std::size_t i = 0; i < channels; ++i) {
    row.sum.push_back(static_cast<double>(x[i]) + (branch == nullptr ? 0.0 : static_cast<double>(branch[i])));
    if (form.kind == NormKind::layernorm) row.mean += row.sum.back() / static_cast<double>(channels);
  }
  double variance = 0.0;
  for (double value : row.sum) variance += (value - row.mean) * (value - row.mean) / static_cast<double>(channels);
  row.rstd = 1.0 / std::sqrt(variance + form.epsilon);
  for (std::size_t i = 0; i < channels; ++i) {
    row.normalized.push_back((row.sum[i] - row.mean) * row.rstd);
    row.out.push_back(row.normalized[i] * weight[i] + (bias == nullptr ? 0.0 : bias[i]));
  }
  return row;
}

// The derivative of out with respect to sum, as a matrix, applied to dout: no algebra shared with the loop.
std::vector<double> input_gradient(const Row& row, const float* dout, const std::vector<float>& weight,
                                   const NormForm& form) {
  const std::size_t channels = weight.size();
  const auto n = static_cast<double>(channels);
  std::vector<double> gradient(channels, 0.0);
  for (std::size_t out = 0; out < channels; ++out) {
    for (std::size_t in = 0; in < channels; ++in) {
      const double same = out == in ? 1.0 : 0.0, of_mean = form.kind == NormKind::layernorm ? 1.0 / n : 0.0;
      const double slope = row.rstd * (same - of_mean - row.normalized[out] * row.normalized[in] / n);
      gradient[in] += static_cast<double>(dout[out]) * weight[out] * slope;
    }
  }
  return gradient;
}

struct Case {
  std::int64_t rows, channels;
  NormForm form;
  std::vector<float> x, branch, weight, bias, dout, dsum;

  Case(std::int64_t row_count, std::int64_t width, const NormForm& norm_form)
      : rows(row_count),
        channels(width),
        form(norm_form),
        x(normal_numbers(1, rows * channels, 2.0)),
        branch(normal_numbers(2, rows * channels)),
        weight(normal_numbers(3, channels)),
        bias(normal_numbers(4, channels)),
        dout(normal_numbers(5, rows * channels)),
        dsum(normal_numbers(6, rows * channels)) {}

  Row row(std::int64_t index, bool with_branch, bool with_bias) const {
    const std::int64_t offset = index * channels;
    return normalize(x.data() + offset, with_branch ? branch.data() + offset : nullptr, weight,
                     with_bias ? bias.data() : nullptr, form);
  }
};

struct Output {
  std::vector<float> sum, out, mean, rstd;
};

Output run_forward(const CpuKernels& loops, Case& given, bool with_branch, bool with_bias) {
  const auto size = given.x.size();
  Output result{std::vector<float>(size), std::vector<float>(size), {}, {}};
  result.mean.resize(static_cast<std::size_t>(given.rows));
  result.rstd.resize(static_cast<std::size_t>(given.rows));
  if (!with_branch) result.sum = given.x;
  loops.norm_forward(with_branch ? given.x.data() : result.sum.data(), with_branch ? given.branch.data() : nullptr,
                     result.sum.data(), result.out.data(), result.mean.data(), result.rstd.data(), given.weight.data(),
                     with_bias ? given.bias.data() : nullptr, given.form, given.rows, given.channels);
  return result;
}

class NormLoop : public OnEveryInstructionSet {};

TEST_P(NormLoop, ForwardIsTheFormula) {
  for (const std::int64_t channels : odd_widths) {
    for (const bool with_branch : {false, true}) {
      for (const auto& [form, with_bias] :
           {std::pair(forms[0], false), std::pair(forms[0], true), std::pair(forms[1], false)}) {
        Case given(3, channels, form);
        const Output actual = run_forward(loops(), given, with_branch, with_bias);
        std::vector<double> sum, out, mean, rstd;
        for (std::int64_t r = 0; r < given.rows; ++r) {
          const Row row = given.row(r, with_branch, with_bias);
          sum.insert(sum.end(), row.sum.begin(), row.sum.end());
          out.insert(out.end(), row.out.begin(), row.out.end());
          mean.push_back(row.mean);
          rstd.push_back(row.rstd);
        }
        SCOPED_TRACE(testing::Message() << channels << " channels, branch " << with_branch << ", bias " << with_bias);
        const auto sums = static_cast<double>(channels);  // the mean, and then the variance
        EXPECT_LT(largest_error(actual.sum, sum), rounding_error(1));
        EXPECT_LT(largest_error(actual.mean, mean), rounding_error(sums + 1));
        EXPECT_LT(largest_error(actual.rstd, rstd), rounding_error(2 * sums + function_roundings));
        EXPECT_LT(largest_error(actual.out, out), rounding_error(2 * sums + function_roundings));
      }
    }
  }
}

TEST_P(NormLoop, BackwardIsTheJacobianAndAddsToTheWeightGradients) {
  for (const std::int64_t channels : odd_widths) {
    for (const auto& [form, with_rest] : {std::pair(forms[0], false), std::pair(forms[0], true),
                                          std::pair(forms[1], true)}) {  // a residual gradient and a bias, or neither
      Case given(3, channels, form);
      const Output forward = run_forward(loops(), given, true, with_rest);
      const auto width = static_cast<std::size_t>(channels);
      std::vector<double> dx, dweight(width, 0.5), dbias(width, with_rest ? 0.25 : 0.0);
      for (std::int64_t r = 0; r < given.rows; ++r) {
        const Row row = given.row(r, true, with_rest);
        const float* const dout = given.dout.data() + r * channels;
        const std::vector<double> gradient = input_gradient(row, dout, given.weight, form);
        for (std::size_t i = 0; i < width; ++i) {
          dx.push_back(gradient[i] + (with_rest ? given.dsum[static_cast<std::size_t>(r) * width + i] : 0.0));
          dweight[i] += static_cast<double>(dout[i]) * row.normalized[i];
          if (with_rest) dbias[i] += static_cast<double>(dout[i]);
        }
      }
      std::vector<float> actual_dx(given.x.size()), actual_dweight(width, 0.5f),
          actual_dbias(width, with_rest ? 0.25f : 0.0f);
      loops().norm_backward(given.dout.data(), with_rest ? given.dsum.data() : nullptr, forward.sum.data(),
                            forward.mean.data(), forward.rstd.data(), given.weight.data(), actual_dx.data(),
                            actual_dweight.data(), with_rest ? actual_dbias.data() : nullptr, form, given.rows,
                            channels);
      SCOPED_TRACE(testing::Message() << channels << " channels, residual and bias " << with_rest);
      const double forward_sums = 2 * static_cast<double>(channels) + function_roundings;
      // A row of one channel has rstd 316, and terms that large, of which nothing is left.
      const double largest_term = largest(forward.rstd) * largest(given.dout) * largest(given.weight);
      EXPECT_LT(largest_error(actual_dx, dx), rounding_error(2 * forward_sums) * largest_term);
      EXPECT_LT(largest_error(actual_dweight, dweight),
                sum_error(static_cast<double>(given.rows + 1), forward_sums) * largest(given.dout));
      EXPECT_LT(largest_error(actual_dbias, dbias),
                sum_error(static_cast<double>(given.rows + 1)) * largest(given.dout));
    }
  }
}

TEST_P(NormLoop, BackwardTakesWeightsThatHaveNoGradient) {
  for (const NormForm& form : forms) {
    Case given(3, 65, form);
    const Output forward = run_forward(loops(), given, true, false);
    std::vector<float> dweight(65), dx(given.x.size()), expected(given.x.size());
    const auto backward = [&](float* gradient, std::vector<float>& out) {
      loops().norm_backward(given.dout.data(), given.dsum.data(), forward.sum.data(), forward.mean.data(),
                            forward.rstd.data(), given.weight.data(), out.data(), gradient, nullptr, form, given.rows,
                            given.channels);
    };
    backward(dweight.data(), expected);
    backward(nullptr, dx);
    EXPECT_LT(largest_error(dx, expected), rounding_error(2 * 65 + function_roundings));
  }
}

// Decoding relies on it: a row in a batch is the row alone, wherever it lies in memory.
TEST_P(NormLoop, ARowsBitsDoNotDependOnTheOtherRows) {
  for (const std::int64_t channels : odd_widths) {
    Case batch(5, channels, forms[0]);
    const Output together = run_forward(loops(), batch, true, true);
    for (std::int64_t r = 0; r < batch.rows; ++r) {
      const auto begin = static_cast<std::ptrdiff_t>(r * channels);
      Case alone = batch;
      alone.rows = 1;
      alone.x.assign(batch.x.begin() + begin, batch.x.begin() + begin + channels);
      alone.branch.assign(batch.branch.begin() + begin, batch.branch.begin() + begin + channels);
      const Output single = run_forward(loops(), alone, true, true);
      EXPECT_TRUE(std::equal(single.out.begin(), single.out.end(), together.out.begin() + begin)) << channels;
    }
  }
}

INKLING_ON_EVERY_INSTRUCTION_SET(NormLoop);

}  // namespace
}  // namespace inkling::test
