#include <algorithm>
#include <numeric>

#include "device_array.h"

namespace inkling {
namespace {

// Shape::rows are the rows; T is 10 or less.
class EmbeddingKernels : public DeviceKernels {
 protected:
  std::int64_t time() const { return std::min<std::int64_t>(rows, 10); }

  // Half of them are token 1, whose run crosses segments; the rest are any.
  std::vector<std::int64_t> some_tokens(std::int64_t vocabulary) const {
    std::vector<std::int64_t> tokens;
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto any = static_cast<std::int64_t>(
          random_below(7, static_cast<std::uint64_t>(row), static_cast<std::uint64_t>(vocabulary)));
      tokens.push_back(row % 2 == 1 ? std::min<std::int64_t>(1, vocabulary - 1) : any);
    }
    return tokens;
  }
};

TEST_P(EmbeddingKernels, ForwardAddsTokenAndPosition) {
  const std::int64_t vocabulary = 11;
  const auto tokens = some_tokens(vocabulary);
  on_every_layout([&]<typename Element>(std::size_t misplaced) {
    const auto token_table = normals<Element>(vocabulary * channels, 1),
               position_table = normals<Element>(time() * channels, 2);
    const DeviceArray<std::int64_t> device_tokens(tokens);
    const DeviceArray<Element> device_token_table(token_table, misplaced),
        device_position_table(position_table, misplaced), out(rows * channels, misplaced);
    // Each row at its place in a sequence, then at positions of its own.
    for (const bool given : {false, true}) {
      std::vector<std::int64_t> positions;
      std::vector<float> wanted;
      for (std::int64_t row = 0; row < rows; ++row) {
        positions.push_back((given ? 7 * row + 3 : row) % time());
        for (std::int64_t i = 0; i < channels; ++i) {
          wanted.push_back(rounded_to<Element>(token_table[at(tokens[static_cast<std::size_t>(row)], i)] +
                                               position_table[at(positions.back(), i)]));
        }
      }
      const DeviceArray<std::int64_t> device_positions(positions);
      cuda_kernels<Element>().embedding_forward(device_tokens.get(), given ? device_positions.get() : nullptr,
                                                device_token_table.get(), device_position_table.get(), out.get(), rows,
                                                time(), channels, nullptr);
      EXPECT_EQ(out.read(), wanted);
    }
  });
}

TEST_P(EmbeddingKernels, BackwardAddsEachRowToItsTokenAndPosition) {
  for (const std::int64_t vocabulary : {1, 11, 1000}) {
    const auto tokens = some_tokens(vocabulary);
    std::vector<std::int64_t> order(tokens.size()), sorted;
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
      return tokens[static_cast<std::size_t>(a)] < tokens[static_cast<std::size_t>(b)];
    });
    for (const std::int64_t row : order) sorted.push_back(tokens[static_cast<std::size_t>(row)]);
    on_every_layout([&]<typename Element>(std::size_t misplaced) {
      const auto dout = normals<Element>(rows * channels, 1);
      const auto dtokens = normals<float>(vocabulary * channels, 2), dpositions = normals<float>(time() * channels, 3);
      std::vector<double> wanted(dtokens.begin(), dtokens.end()),
          wanted_positions(dpositions.begin(), dpositions.end());
      for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t i = 0; i < channels; ++i) {
          wanted[at(tokens[static_cast<std::size_t>(row)], i)] += dout[at(row, i)];
          wanted_positions[at(row % time(), i)] += dout[at(row, i)];
        }
      }
      const DeviceArray<std::int64_t> device_sorted(sorted), device_order(order);
      const DeviceArray<Element> device_dout(dout, misplaced);
      const DeviceArray<float> device_dtokens(dtokens), device_dpositions(dpositions),
          scratch(embedding_scratch(rows, channels));
      cuda_kernels<Element>().embedding_backward(device_sorted.get(), device_order.get(), device_dout.get(),
                                                 device_dtokens.get(), device_dpositions.get(), scratch.get(), rows,
                                                 time(), channels, nullptr);
      const double error = sum_error(static_cast<double>(rows + 1));
      expect_near<float>(device_dtokens.read(), wanted, error, "dtokens");
      expect_near<float>(device_dpositions.read(), wanted_positions, error, "dpositions");
      scratch.read();  // its guards
    });
  }
}

// 17000 rows are cut into segments of 34, fewer into segments of 32.
INKLING_ON_SHAPES(EmbeddingKernels, Shape{0, 8}, Shape{1, 1}, Shape{3, 7}, Shape{32, 8}, Shape{33, 8}, Shape{64, 65},
                  Shape{500, 128}, Shape{17, 768}, Shape{17000, 4});

}  // namespace
}  // namespace inkling
