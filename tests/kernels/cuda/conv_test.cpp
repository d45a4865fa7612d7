#include <algorithm>

#include "device_array.h"

namespace inkling {
namespace {

constexpr std::pair<std::int64_t, std::int64_t> times_and_widths[] = {{1, 2}, {3, 7}, {9, 4}, {16, 32}};

// Shape::rows are texts, each of one document or, where positions_ holds each token's, of several.
class ConvKernels : public DeviceKernels {
 protected:
  // Calls body(device_positions) without documents, and with some of 1 to 5 tokens.
  template <typename Body>
  void with_and_without_documents(std::int64_t time, const Body& body) {
    positions_.clear();
    body(static_cast<const std::int64_t*>(nullptr));
    SCOPED_TRACE("documents");
    std::int64_t position = 0;
    for (std::int64_t row = 0; row < rows * time; ++row, ++position) {
      if (row % time == 0 || row % 5 == 2 || row % 7 == 3) position = 0;
      positions_.push_back(position);
    }
    const DeviceArray<std::int64_t> on_device(positions_);
    body(static_cast<const std::int64_t*>(on_device.get()));
    positions_.clear();
  }

  std::int64_t position(std::int64_t row, std::int64_t time) const {
    return positions_.empty() ? row % time : positions_[static_cast<std::size_t>(row)];
  }

  // Calls body(to, from, weight's element) for each pair of an output and an input that it depends on.
  template <typename Body>
  void for_each_term(std::int64_t time, std::int64_t width, const Body& body) const {
    for (std::int64_t row = 0; row < rows * time; ++row) {
      for (std::int64_t k = 0; k < width && k <= position(row, time); ++k) {
        for (std::int64_t c = 0; c < channels; ++c) {
          body(static_cast<std::size_t>(row * channels + c), static_cast<std::size_t>((row - k) * channels + c),
               static_cast<std::size_t>(k * channels + c));
        }
      }
    }
  }

  std::vector<double> output(const std::vector<float>& x, const std::vector<float>& weight, std::int64_t time,
                             std::int64_t width) const {
    std::vector<double> out(x.begin(), x.end());
    for_each_term(time, width, [&](std::size_t to, std::size_t from, std::size_t element) {
      out[to] += static_cast<double>(weight[element]) * x[from];
    });
    return out;
  }

  std::vector<std::int64_t> positions_;
};

TEST_P(ConvKernels, ForwardIsTheFormula) {
  on_every_layout([&]<typename Element>(std::size_t misplaced) {
    for (const auto& [time, width] : times_and_widths) {
      const auto x = normals<Element>(rows * time * channels, 1), weight = normals<Element>(width * channels, 2);
      const DeviceArray<Element> dx(x, misplaced), dweight(weight, misplaced), out(rows * time * channels, misplaced);
      with_and_without_documents(time, [&](const std::int64_t* positions) {
        cuda_kernels<Element>().conv_forward(dx.get(), dweight.get(), positions, out.get(), rows * time, time, channels,
                                             width, nullptr);
        expect_near<Element>(out.read(), output(x, weight, time, width), sum_error(static_cast<double>(width + 1)),
                             "out");
      });
    }
  });
}

TEST_P(ConvKernels, BackwardIsTheTransposeAndAddsToTheWeightGradient) {
  on_every_layout([&]<typename Element>(std::size_t misplaced) {
    for (const auto& [time, width] : times_and_widths) {
      const std::int64_t size = rows * time * channels;
      const auto x = normals<Element>(size, 1), weight = normals<Element>(width * channels, 2),
                 dout = normals<Element>(size, 3);
      const auto before = normals<float>(width * channels, 4);
      const DeviceArray<Element> device_x(x, misplaced), device_weight(weight, misplaced), device_dout(dout, misplaced),
          device_dx(size, misplaced);
      with_and_without_documents(time, [&](const std::int64_t* positions) {
        std::vector<double> dx(dout.begin(), dout.end()), dweight(before.begin(), before.end());
        for_each_term(time, width, [&](std::size_t to, std::size_t from, std::size_t element) {
          dx[from] += static_cast<double>(weight[element]) * dout[to];
          dweight[element] += static_cast<double>(x[from]) * dout[to];
        });
        const DeviceArray<float> device_dweight(before), scratch(column_scratch(width * channels));
        cuda_kernels<Element>().conv_backward(device_dout.get(), device_x.get(), device_weight.get(), positions,
                                              device_dx.get(), device_dweight.get(), scratch.get(), rows * time, time,
                                              channels, width, nullptr);
        expect_near<Element>(device_dx.read(), dx, sum_error(static_cast<double>(width + 1)), "dx");
        expect_near<float>(device_dweight.read(), dweight, sum_error(static_cast<double>(rows * time + 1)), "dweight");
        scratch.read();  // its guards
      });
    }
  });
}

// Each token twice, as where the GPU ran ahead in vain.
TEST_P(ConvKernels, OneTokenAfterTheOtherGivesTheSame) {
  on_every_layout([&]<typename Element>(std::size_t misplaced) {
    for (const auto& [time, width] : times_and_widths) {
      const auto x = normals<Element>(rows * time * channels, 1), weight = normals<Element>(width * channels, 2);
      const std::vector<double> wanted = output(x, weight, time, width);
      const DeviceArray<Element> ring(rows * width * channels), dweight(weight, misplaced);
      for (std::int64_t t = 0; t < time; ++t) {
        std::vector<float> tokens;
        std::vector<double> of_tokens;
        for (std::int64_t text = 0; text < rows; ++text) {
          const auto place = static_cast<std::ptrdiff_t>((text * time + t) * channels);
          tokens.insert(tokens.end(), x.begin() + place, x.begin() + place + channels);
          of_tokens.insert(of_tokens.end(), wanted.begin() + place, wanted.begin() + place + channels);
        }
        const DeviceArray<std::int64_t> lengths(std::vector<std::int64_t>(static_cast<std::size_t>(rows), t));
        const DeviceArray<Element> row(tokens, misplaced), out(rows * channels, misplaced);
        for (int again = 0; again < 2; ++again) {
          cuda_kernels<Element>().conv_cached(row.get(), ring.get(), dweight.get(), lengths.get(), out.get(), rows,
                                              channels, width, nullptr);
          expect_near<Element>(out.read(), of_tokens, sum_error(static_cast<double>(width + 1)), "out");
        }
      }
      ring.read();  // its guards
    }
  });
}

INKLING_ON_SHAPES(ConvKernels, Shape{0, 8}, Shape{1, 1}, Shape{3, 7}, Shape{2, 64}, Shape{5, 300}, Shape{40, 16});

}  // namespace
}  // namespace inkling
