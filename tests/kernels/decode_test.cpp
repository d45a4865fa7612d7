// The loops of generation: right, and each row's bits its own.
#include <bit>

#include "tests/kernels/on_every_instruction_set.h"

namespace inkling::test {
namespace {

class DecodeLoop : public OnEveryInstructionSet {};

struct Product {
  std::int64_t rows, inner, columns;
};

const std::vector<Product> products = {{1, 1, 1}, {2, 7, 16}, {3, 65, 100}, {5, 100, 65}, {4, 16, 200}, {2, 128, 7}};

std::vector<double> reference_product(const Product& size, const std::vector<float>& x,
                                      const std::vector<float>& weight, bool transposed) {
  std::vector<double> out;
  for (std::int64_t row = 0; row < size.rows; ++row) {
    for (std::int64_t column = 0; column < size.columns; ++column) {
      double sum = 0.0;
      for (std::int64_t k = 0; k < size.inner; ++k) {
        const std::int64_t place = transposed ? column * size.inner + k : k * size.columns + column;
        sum += static_cast<double>(x[static_cast<std::size_t>(row * size.inner + k)]) *
               weight[static_cast<std::size_t>(place)];
      }
      out.push_back(sum);
    }
  }
  return out;
}

// The whole product; transposed: with the columns in the parts that `cuts` names, otherwise with the lines in these
// parts, whose shares are added.
std::vector<float> product(const CpuKernels& loops, const Product& size, const float* x,
                           const std::vector<float>& weight, bool transposed, std::vector<std::int64_t> cuts) {
  std::vector<float> out(static_cast<std::size_t>(size.rows * size.columns), transposed ? NAN : 0.0f);
  cuts.insert(cuts.begin(), 0);
  cuts.push_back(transposed ? size.columns : size.inner);
  for (std::size_t part = 0; part + 1 < cuts.size(); ++part) {
    if (transposed) {
      loops.rows_times_transposed(x, weight.data(), out.data(), size.rows, size.inner, size.columns, cuts[part],
                                  cuts[part + 1]);
      continue;
    }
    std::vector<float> share(out.size(), NAN);
    loops.rows_times_lines(x, weight.data(), share.data(), size.rows, size.inner, size.columns, cuts[part],
                           cuts[part + 1]);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += share[i];
  }
  return out;
}

TEST_P(DecodeLoop, SharesOfLinesAddUpToTheProduct) {
  for (const Product& size : products) {
    const std::vector<float> x = normal_numbers(1, size.rows * size.inner);
    const std::vector<float> weight = normal_numbers(2, size.inner * size.columns);
    for (const bool transposed : {false, true}) {
      const auto expected = reference_product(size, x, weight, transposed);
      const std::int64_t third = (transposed ? size.columns : size.inner) / 3;
      for (const std::vector<std::int64_t>& cuts : {std::vector<std::int64_t>{}, {third}, {third, 2 * third}}) {
        const auto actual = product(loops(), size, x.data(), weight, transposed, cuts);
        EXPECT_LT(largest_error(actual, expected), sum_error(static_cast<double>(size.inner)))
            << size.rows << " x " << size.inner << " x " << size.columns;
      }
    }
  }
}

TEST_P(DecodeLoop, ARowsBitsDoNotDependOnOtherRows) {
  for (const Product& size : products) {
    const std::vector<float> x = normal_numbers(1, size.rows * size.inner);
    const std::vector<float> weight = normal_numbers(2, size.inner * size.columns);
    for (const bool transposed : {false, true}) {
      const std::vector<float> whole = product(loops(), size, x.data(), weight, transposed, {});
      for (std::int64_t row = 0; row < size.rows; ++row) {
        const Product one = {1, size.inner, size.columns};
        const auto alone = product(loops(), one, x.data() + row * size.inner, weight, transposed, {});
        EXPECT_TRUE(
            std::equal(alone.begin(), alone.end(), whole.begin() + static_cast<std::ptrdiff_t>(row * size.columns)));
      }
    }
  }
}

// Half as many bytes of weights, the same arithmetic.
TEST_P(DecodeLoop, AWeightInBfloat16GivesTheBitsOfTheSameNumbersInFloat32) {
  for (const Product& size : products) {
    const std::vector<float> x = normal_numbers(1, size.rows * size.inner);
    std::vector<float> weight = normal_numbers(2, size.inner * size.columns);
    std::vector<std::uint16_t> halves;
    for (float& value : weight) {
      halves.push_back(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16));
      value = std::bit_cast<float>(static_cast<std::uint32_t>(halves.back()) << 16);
    }
    std::vector<float> out(static_cast<std::size_t>(size.rows * size.columns), NAN);
    loops().rows_times_lines_bfloat16(x.data(), halves.data(), out.data(), size.rows, size.inner, size.columns, 0,
                                      size.inner);
    EXPECT_EQ(out, product(loops(), size, x.data(), weight, false, {}));
    loops().rows_times_transposed_bfloat16(x.data(), halves.data(), out.data(), size.rows, size.inner, size.columns, 0,
                                           size.columns);
    EXPECT_EQ(out, product(loops(), size, x.data(), weight, true, {}));
  }
}

TEST_P(DecodeLoop, AttendCachedIsSoftmaxOfScaledProductsTimesValues) {
  for (const std::int64_t head_size : odd_widths) {
    // The last scores are in the hundreds, where e^x has left the range of float32.
    for (const auto& [length, scale] : {std::pair<std::int64_t, double>{1, 2.0}, {2, 2.0}, {33, 2.0}, {33, 200.0}}) {
      const std::int64_t stride = head_size + 3;  // rows may lie apart
      const std::vector<float> query = normal_numbers(1, head_size, scale);
      const std::vector<float> keys = normal_numbers(2, length * stride, 2.0);
      const std::vector<float> values = normal_numbers(3, length * stride);
      std::vector<double> scores, weights, expected(static_cast<std::size_t>(head_size), 0.0);
      for (std::int64_t t = 0; t < length; ++t) {
        double score = 0.0;
        for (std::int64_t i = 0; i < head_size; ++i)
          score +=
              static_cast<double>(query[static_cast<std::size_t>(i)]) * keys[static_cast<std::size_t>(t * stride + i)];
        scores.push_back(score / std::sqrt(static_cast<double>(head_size)));
      }
      const double largest = *std::max_element(scores.begin(), scores.end());
      double total = 0.0;
      for (const double score : scores) {
        weights.push_back(std::exp(score - largest));
        total += weights.back();
      }
      for (std::int64_t t = 0; t < length; ++t) {
        for (std::int64_t i = 0; i < head_size; ++i) {
          expected[static_cast<std::size_t>(i)] +=
              weights[static_cast<std::size_t>(t)] / total * values[static_cast<std::size_t>(t * stride + i)];
        }
      }
      std::vector<float> out(expected.size(), NAN), room(static_cast<std::size_t>(length), NAN);
      loops().attend_cached(query.data(), keys.data(), values.data(), out.data(), room.data(), length, stride,
                            head_size);
      const double largest_score = std::max(largest, -*std::min_element(scores.begin(), scores.end()));
      EXPECT_LT(largest_error(out, expected), rounding_error(in_softmax(static_cast<double>(head_size), largest_score) +
                                                             static_cast<double>(length) + function_roundings))
          << head_size << " wide, " << length << " long";
    }
  }
}

TEST_P(DecodeLoop, AttendCachedReadsNothingBehindTheLength) {
  const std::vector<float> query = normal_numbers(1, 16);
  std::vector<float> keys = normal_numbers(2, 4 * 16), values = normal_numbers(3, 4 * 16);
  const auto attend = [&] {
    std::vector<float> out(16), scores(3);
    loops().attend_cached(query.data(), keys.data(), values.data(), out.data(), scores.data(), 3, 16, 16);
    return out;
  };
  const std::vector<float> before = attend();
  std::fill(keys.begin() + 48, keys.end(), NAN);
  std::fill(values.begin() + 48, values.end(), NAN);
  EXPECT_EQ(attend(), before);
}

INKLING_ON_EVERY_INSTRUCTION_SET(DecodeLoop);

}  // namespace
}  // namespace inkling::test
