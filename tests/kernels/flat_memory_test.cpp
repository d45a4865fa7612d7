// The loops over flat memory: AdamW, sums, dropout; and the exponential that several loops share.
#include <cstdlib>

#include "base/error.h"
#include "kernels/math.h"
#include "tests/kernels/on_every_instruction_set.h"

namespace inkling::test {
namespace {

class FlatLoop : public OnEveryInstructionSet {};

TEST_P(FlatLoop, AdamWFollowsTheFormulaForManySteps) {
  for (const std::int64_t n : odd_widths) {
    const auto size = static_cast<std::size_t>(n);
    std::vector<float> value = normal_numbers(1, n), moment1(size, 0.0f), moment2(size, 0.0f);
    std::vector<double> w(value.begin(), value.end()), m(size, 0.0), v(size, 0.0);
    // As float32 holds them: 1 - beta2 is a twentieth, and magnifies what was rounded away from beta2.
    const double rate = 0.01f, beta1 = 0.9f, beta2 = 0.95f, epsilon = 1e-8f, decay = 0.1f, clip = 0.5f;
    constexpr int steps = 20;
    for (int step = 1; step <= steps; ++step) {
      const std::vector<float> gradient = normal_numbers(100 + static_cast<std::uint64_t>(step), n);
      const double correction1 = 1.0 - std::pow(beta1, step), correction2 = 1.0 - std::pow(beta2, step);
      for (std::size_t i = 0; i < size; ++i) {
        const double g = clip * gradient[i];
        m[i] = beta1 * m[i] + (1.0 - beta1) * g;
        v[i] = beta2 * v[i] + (1.0 - beta2) * g * g;
        w[i] -= rate * decay * w[i];
        w[i] -= rate * (m[i] / correction1) / (std::sqrt(v[i] / correction2) + epsilon);
      }
      const auto f = [](double x) { return static_cast<float>(x); };
      loops().adamw(value.data(), gradient.data(), moment1.data(), moment2.data(),
                    {f(rate), f(beta1), f(beta2), f(epsilon), f(decay), f(clip), f(correction1), f(correction2)}, n);
    }
    // A moment goes through four roundings in a step. A value goes through two, its change, a hundredth of it, through
    // some more, and the factor of the decay is rounded the same way in every step.
    EXPECT_LT(largest_error(value, w), rounding_error(2 * steps) + steps * oracle::float32_roundoff) << n;
    EXPECT_LT(largest_error(moment1, m), rounding_error(4 * steps)) << n;
    EXPECT_LT(largest_error(moment2, v), rounding_error(4 * steps)) << n;
  }
}

TEST_P(FlatLoop, TheTwoEndsOfMuonFollowTheirFormulas) {
  for (const std::int64_t n : odd_widths) {
    std::vector<float> momentum = normal_numbers(1, n), value = normal_numbers(2, n), update(momentum.size());
    const std::vector<float> gradient = normal_numbers(3, n), direction = normal_numbers(4, n);
    const double memory = 0.95f, clip = 0.5f, rate = 0.02f, decay = 0.1f;
    std::vector<double> m, u, w;
    for (std::size_t i = 0; i < momentum.size(); ++i) {
      m.push_back(memory * momentum[i] + clip * gradient[i]);
      u.push_back(clip * gradient[i] + memory * m.back());
      w.push_back(value[i] * (1.0 - rate * decay) - rate * direction[i]);
    }
    loops().muon_momentum(momentum.data(), gradient.data(), update.data(), 0.95f, 0.5f, n);
    loops().muon_step(value.data(), direction.data(), 0.02f, 0.1f, n);
    EXPECT_LT(largest_error(momentum, m), rounding_error(3)) << n;
    EXPECT_LT(largest_error(update, u), rounding_error(5)) << n;
    EXPECT_LT(largest_error(value, w), rounding_error(4)) << n;
  }
}

TEST_P(FlatLoop, SumOfSquaresAndColumnSumsAreSums) {
  for (const std::int64_t n : odd_widths) {
    const std::int64_t rows = 3;
    const std::vector<float> x = normal_numbers(1, rows * n);
    std::vector<double> columns(static_cast<std::size_t>(n), 1.0);
    double squares = 0.0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      columns[i % columns.size()] += x[i];
      squares += static_cast<double>(x[i]) * x[i];
    }
    EXPECT_NEAR(loops().sum_of_squares(x.data(), rows * n), squares,
                rounding_error(static_cast<double>(rows * n), 0x1p-53) * squares);
    std::vector<float> sums(columns.size(), 1.0f);
    loops().add_column_sums(x.data(), sums.data(), rows, n);
    EXPECT_LT(largest_error(sums, columns), sum_error(static_cast<double>(rows + 1)));
  }
}

TEST_P(FlatLoop, SquaresDoNotOverflowWhereTheNormIsFinite) {
  const std::vector<float> x(9, 1e30f);
  EXPECT_NEAR(std::sqrt(loops().sum_of_squares(x.data(), 9)) / 3e30, 1.0, rounding_error(1));
}

TEST_P(FlatLoop, DropoutIsAFunctionOfKeyAndPlace) {
  const std::uint64_t key = random_key(7, Purpose::dropout, 3);
  const auto threshold = static_cast<std::uint32_t>(0.3 * 4294967296.0);
  for (const std::int64_t n : odd_widths) {
    const std::vector<float> x = normal_numbers(1, n);
    std::vector<float> expected = x, whole = x, parts = x;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      expected[i] = (random_bits(key, 1000 + i) >> 32) >= threshold ? x[i] * 2.0f : 0.0f;
    }
    loops().dropout(whole.data(), key, 1000, threshold, 2.0f, n);
    EXPECT_EQ(whole, expected);
    const std::int64_t cut = n / 3;
    loops().dropout(parts.data(), key, 1000, threshold, 2.0f, cut);
    loops().dropout(parts.data() + cut, key, 1000 + static_cast<std::uint64_t>(cut), threshold, 2.0f, n - cut);
    EXPECT_EQ(parts, expected);
  }
}

TEST_P(FlatLoop, DropoutKeepsTheShareItIsAskedTo) {
  const std::int64_t n = 200000;
  for (const double probability : {0.0, 0.1, 0.5, 0.9}) {
    std::vector<float> x(static_cast<std::size_t>(n), 1.0f);
    const auto threshold = static_cast<std::uint32_t>(probability * 4294967296.0);
    loops().dropout(x.data(), random_key(1, Purpose::dropout, 0), 0, threshold, 1.0f, n);
    const auto kept = static_cast<double>(std::count(x.begin(), x.end(), 1.0f));
    const double deviation = std::sqrt(static_cast<double>(n) * probability * (1.0 - probability));
    EXPECT_NEAR(kept, static_cast<double>(n) * (1.0 - probability), 4.0 * deviation) << probability;
  }
}

INKLING_ON_EVERY_INSTRUCTION_SET(FlatLoop);

TEST(FastExp, IsWithinTwoTenMillionthsOfTheExponential) {
  double largest = 0.0;
  for (int i = 0; i <= 2'000'000; ++i) {
    const float x = -87.0f + 175.0f * static_cast<float>(i) / 2e6f;
    const double exact = std::exp(static_cast<double>(x));
    largest = std::max(largest, std::abs(static_cast<double>(fast_exp(x)) - exact) / exact);
  }
  EXPECT_LT(largest, 2e-7);
  EXPECT_EQ(fast_exp(0.0f), 1.0f);
}

TEST(FastExp, StaysFiniteOutsideItsRangeAndPassesOnWhatIsNotANumber) {
  EXPECT_LT(fast_exp(-1e30f), 2e-38f);
  EXPECT_GE(fast_exp(-INFINITY), 0.0f);
  EXPECT_TRUE(std::isfinite(fast_exp(1e30f)));
  EXPECT_TRUE(std::isnan(fast_exp(NAN)));
}

TEST(CpuKernels, EveryMachineHasTheBaselineAndUsesItsBestOrTheOneThatIsNamed) {
  ASSERT_FALSE(all_cpu_kernels().empty());
  EXPECT_EQ(std::string(all_cpu_kernels().back()->name), "baseline");
  const char* const forced = std::getenv("INKLING_INSTRUCTION_SET");
  EXPECT_EQ(&cpu_kernels(), forced == nullptr ? all_cpu_kernels().front() : &cpu_kernels_named(forced));
  for (const CpuKernels* kernels : all_cpu_kernels()) EXPECT_EQ(&cpu_kernels_named(kernels->name), kernels);
}

TEST(CpuKernels, AnInstructionSetThatTheProcessorDoesNotHaveIsTheEnvironmentsFaultAndTheOthersAreNamed) {
  try {
    cpu_kernels_named("avx1024");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::environment);
    EXPECT_NE(error.message().find("avx1024"), std::string::npos) << error.message();
    for (const CpuKernels* kernels : all_cpu_kernels()) {
      EXPECT_NE(error.message().find(kernels->name), std::string::npos) << error.message();
    }
  }
}

}  // namespace
}  // namespace inkling::test
