#include <algorithm>
#include <limits>
#include <numbers>
#include <optional>

#include "device_array.h"

namespace inkling {
namespace {

// Shape::rows are the lines of the matrix (inner).
class MatrixKernels : public DeviceKernels {
 protected:
  // With the GELU of `activation`, or without.
  template <typename Element>
  std::vector<float> times_matrix(const std::vector<float>& x, const std::vector<float>& weight,
                                  const std::vector<float>& bias, std::size_t misplaced,
                                  std::optional<Activation> activation = {}) const {
    const std::int64_t inner = rows, count = static_cast<std::int64_t>(x.size()) / inner;
    const DeviceArray<Element> device_x(x, misplaced), device_weight(weight, misplaced), device_bias(bias, misplaced),
        out(count * channels, misplaced);
    const Element* const shift = bias.empty() ? nullptr : device_bias.get();
    if (activation) {
      cuda_kernels<Element>().rows_times_matrix_activated(device_x.get(), device_weight.get(), shift, out.get(),
                                                          *activation, count, inner, channels, nullptr);
    } else {
      cuda_kernels<Element>().rows_times_matrix(device_x.get(), device_weight.get(), shift, out.get(), count, inner,
                                                channels, nullptr);
    }
    return out.read();
  }

  template <typename Element>
  std::vector<float> times_transposed(const std::vector<float>& x, const std::vector<float>& weight,
                                      std::size_t misplaced) const {
    const std::int64_t inner = rows, count = static_cast<std::int64_t>(x.size()) / inner;
    const DeviceArray<Element> device_x(x, misplaced), device_weight(weight, misplaced);
    const DeviceArray<float> out(count * channels);
    cuda_kernels<Element>().rows_times_transposed(device_x.get(), device_weight.get(), out.get(), count, inner,
                                                  channels, nullptr);
    return out.read();
  }

  // x times weight, whose element (k, j) is at k * line + j * step.
  std::vector<double> product(const std::vector<float>& x, const std::vector<float>& weight,
                              const std::vector<float>& bias, std::int64_t line, std::int64_t step) const {
    const std::int64_t inner = rows, count = static_cast<std::int64_t>(x.size()) / inner;
    std::vector<double> out;
    for (std::int64_t row = 0; row < count; ++row) {
      for (std::int64_t j = 0; j < channels; ++j) {
        double sum = bias.empty() ? 0.0 : bias[static_cast<std::size_t>(j)];
        for (std::int64_t k = 0; k < inner; ++k) {
          sum += static_cast<double>(x[static_cast<std::size_t>(row * inner + k)]) *
                 weight[static_cast<std::size_t>(k * line + j * step)];
        }
        out.push_back(sum);
      }
    }
    return out;
  }

  // Of sums of `rows` products whose terms are of size 1, and a bias.
  double product_error() const { return sum_error(static_cast<double>(rows + 1)); }
};

TEST_P(MatrixKernels, RowsTimesMatrixIsTheirProduct) {
  on_every_layout([&]<typename Element>(std::size_t misplaced) {
    const auto weight = normals<Element>(rows * channels, 1), bias = normals<Element>(channels, 2);
    for (const std::int64_t count : {1, 2, 3, 13}) {
      const auto x = normals<Element>(count * rows, 3);
      const auto out = times_matrix<Element>(x, weight, bias, misplaced);
      expect_near<Element>(out, product(x, weight, bias, channels, 1), product_error(), "out");
      // The last row alone has the same bits.
      const std::vector<float> last(x.end() - rows, x.end());
      EXPECT_EQ(times_matrix<Element>(last, weight, bias, misplaced),
                std::vector<float>(out.end() - channels, out.end()));
    }
    const auto x = normals<Element>(rows, 3);
    expect_near<Element>(times_matrix<Element>(x, weight, {}, misplaced), product(x, weight, {}, channels, 1),
                         product_error(), "out without a bias");
  });
}

TEST_P(MatrixKernels, RowsTimesMatrixGeluIsTheGeluOfTheirProduct) {
  on_every_layout([&]<typename Element>(std::size_t misplaced) {
    const auto weight = normals<Element>(rows * channels, 1), bias = normals<Element>(channels, 2);
    for (const std::int64_t count : {1, 5}) {
      const auto x = normals<Element>(count * rows, 3);
      const auto pre = product(x, weight, bias, channels, 1);
      for (const Activation activation : {Activation::gelu_tanh, Activation::gelu}) {
        std::vector<double> wanted;
        for (const double v : pre) {
          wanted.push_back(activation == Activation::gelu_tanh
                               ? 0.5 * v * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (v + 0.044715 * v * v * v)))
                               : 0.5 * v * std::erfc(-v / std::numbers::sqrt2));
        }
        const auto out = times_matrix<Element>(x, weight, bias, misplaced, activation);
        expect_near<Element>(out, wanted, rounding_error(2 * function_roundings) + 2 * product_error(), "out");
        const std::vector<float> last(x.end() - rows, x.end());
        EXPECT_EQ(times_matrix<Element>(last, weight, bias, misplaced, activation),
                  std::vector<float>(out.end() - channels, out.end()));
      }
    }
  });
}

TEST_P(MatrixKernels, RowsTimesTransposedIsTheirProduct) {
  on_every_layout([&]<typename Element>(std::size_t misplaced) {
    const auto weight = normals<Element>(rows * channels, 1);
    for (const std::int64_t count : {1, 2, 3, 13}) {
      const auto x = normals<Element>(count * rows, 3);
      const auto out = times_transposed<Element>(x, weight, misplaced);
      expect_near<float>(out, product(x, weight, {}, 1, rows), product_error(), "out");
      const std::vector<float> last(x.end() - rows, x.end());
      EXPECT_EQ(times_transposed<Element>(last, weight, misplaced),
                std::vector<float>(out.end() - channels, out.end()));
    }
  });
}

INKLING_ON_SHAPES(MatrixKernels, Shape{1, 1}, Shape{3, 7}, Shape{64, 65}, Shape{100, 128}, Shape{140, 264},
                  Shape{1000, 24}, Shape{2100, 16});

// Shape::rows is the capacity of the cache, Shape::channels the size of a head.
class AttendCachedKernels : public DeviceKernels {
 protected:
  static constexpr std::int64_t batch = 3, heads = 4;
  std::int64_t shared = heads;  // keys and values
  AttentionPattern pattern = {};

  std::vector<std::int64_t> lengths() const {
    if (!pattern.is_full()) return {5 * rows + 3, rows / 2, 0};
    return {rows - 1, rows / 2, 0};
  }
  CachedPlace place(std::int64_t position) const { return cached_place(pattern, rows, position); }
  std::size_t in_cache(std::int64_t b, std::int64_t head, std::int64_t t) const {
    return static_cast<std::size_t>(((b * shared + head) * rows + t) * channels);
  }
  std::size_t in_qkv(std::int64_t b, std::int64_t number) const {
    return static_cast<std::size_t>((b * (heads + 2 * shared) + number) * channels);
  }

  // Attention of one query over `count` keys and values.
  // Returns the largest score.
  double attend(const float* query, const float* keys, const float* values, std::int64_t count,
                std::vector<double>& out) const {
    std::vector<double> weights;
    double total = 0, largest_score = 0;
    for (std::int64_t t = 0; t < count; ++t) {
      double score = 0;
      for (std::int64_t i = 0; i < channels; ++i) score += static_cast<double>(query[i]) * keys[t * channels + i];
      score /= std::sqrt(static_cast<double>(channels));
      largest_score = std::max(largest_score, std::fabs(score));
      weights.push_back(std::exp(score));
      total += weights.back();
    }
    for (std::int64_t i = 0; i < channels; ++i) {
      double sum = 0;
      for (std::int64_t t = 0; t < count; ++t) {
        sum += weights[static_cast<std::size_t>(t)] * values[t * channels + i];
      }
      out.push_back(sum / total);
    }
    return largest_score;
  }

  // Keys of the second chunk and on are `later` times as large.
  template <typename Element>
  void expect_attention(std::size_t misplaced, float later) const {
    const auto qkv = normals<Element>(batch * (heads + 2 * shared) * channels, 1);
    auto keys = normals<Element>(batch * shared * rows * channels, 2),
         values = normals<Element>(batch * shared * rows * channels, 3);
    for (std::int64_t i = 0; i < batch * shared * rows * channels; ++i) {
      if (i / channels % rows >= attention_chunk) keys[static_cast<std::size_t>(i)] *= later;
    }
    const auto positions = lengths();
    // What the cache holds where the new position comes, and beside what it sees, must not matter.
    for (std::int64_t b = 0; b < batch; ++b) {
      const CachedPlace seen = place(positions[static_cast<std::size_t>(b)]);
      for (std::int64_t head = 0; head < shared; ++head) {
        for (std::int64_t t = 0; t < rows; ++t) {
          if (t >= seen.first && t < seen.first + seen.count && t != seen.slot) continue;
          std::fill_n(keys.begin() + static_cast<std::ptrdiff_t>(in_cache(b, head, t)), channels, 1e30f);
          std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(in_cache(b, head, t)), channels, 1e30f);
        }
      }
    }
    const DeviceArray<Element> device_qkv(qkv, misplaced), device_keys(keys, misplaced),
        device_values(values, misplaced), out(batch * heads * channels, misplaced);
    const DeviceArray<std::int64_t> device_lengths(positions);
    const DeviceArray<float> scratch(attend_scratch(batch, heads, channels, rows));
    const std::vector<std::uint32_t> zeros(batch * heads);
    const DeviceArray<std::uint32_t> arrivals(zeros);
    const auto cached_keys = device_keys.read(), cached_values = device_values.read();  // 1e30 as Elements
    const auto launch = [&] {
      cuda_kernels<Element>().attend_cached(device_qkv.get(), device_keys.get(), device_values.get(),
                                            device_lengths.get(), out.get(), scratch.get(), arrivals.get(), batch,
                                            {heads, shared, channels, pattern}, rows, nullptr);
    };
    launch();
    keys = cached_keys;
    values = cached_values;
    std::vector<double> wanted;
    double largest_score = 0;
    for (std::int64_t b = 0; b < batch; ++b) {
      const CachedPlace seen = place(positions[static_cast<std::size_t>(b)]);
      for (std::int64_t head = 0; head < shared; ++head) {
        std::copy_n(qkv.data() + in_qkv(b, heads + head), channels, keys.data() + in_cache(b, head, seen.slot));
        std::copy_n(qkv.data() + in_qkv(b, heads + shared + head), channels,
                    values.data() + in_cache(b, head, seen.slot));
      }
      for (std::int64_t head = 0; head < heads; ++head) {
        const std::size_t cached = in_cache(b, head / (heads / shared), seen.first);
        largest_score = std::max(largest_score, attend(qkv.data() + in_qkv(b, head), keys.data() + cached,
                                                       values.data() + cached, seen.count, wanted));
      }
    }
    EXPECT_EQ(device_keys.read(), keys);
    EXPECT_EQ(device_values.read(), values);
    const auto result = out.read();
    const double roundings = oracle::in_softmax(static_cast<double>(channels), largest_score);
    expect_near<Element>(result, wanted, rounding_error(roundings + static_cast<double>(rows) + function_roundings),
                         "out");
    scratch.read();  // its guards
    EXPECT_EQ(arrivals.read(), zeros);
    launch();
    EXPECT_EQ(out.read(), result) << "the next launch finds the counters as the first did";
  }
};

TEST_P(AttendCachedKernels, NewPositionsAreCachedAndAttendToAllBefore) {
  for (shared = heads; shared > 0; shared /= 2) {
    on_every_layout([&]<typename Element>(std::size_t misplaced) { expect_attention<Element>(misplaced, 1.0f); });
  }
}

// Rings of one text, and of three, of which a rest of the rows stays unused.
TEST_P(AttendCachedKernels, WindowsAttendToTheirRingAlone) {
  for (const AttentionPattern& each : {AttentionPattern{rows, 1}, AttentionPattern{rows / 3 + 1, 3}}) {
    if (each.dilation > rows) continue;  // no cache is smaller
    pattern = each;
    on_every_layout([&]<typename Element>(std::size_t misplaced) { expect_attention<Element>(misplaced, 1.0f); });
  }
}

// So much larger that their exponentials are past the range of float32.
TEST_P(AttendCachedKernels, LaterChunksMayHaveMuchLargerScores) {
  on_every_layout([&]<typename Element>(std::size_t misplaced) { expect_attention<Element>(misplaced, 64.0f); });
}

// Chunks are of 64 keys.
INKLING_ON_SHAPES(AttendCachedKernels, Shape{1, 1}, Shape{3, 7}, Shape{64, 64}, Shape{129, 64}, Shape{200, 80},
                  Shape{70, 200});

}  // namespace
}  // namespace inkling
