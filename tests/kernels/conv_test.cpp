#include "tests/kernels/on_every_instruction_set.h"

namespace inkling::test {
namespace {

// Texts of `time` tokens, one behind the other, each of one document or of several.
struct Case {
  std::int64_t texts, time, channels, width;
  std::vector<float> x, weight, dout;
  std::vector<std::int64_t> positions = {};

  const std::int64_t* given_positions() const { return positions.empty() ? nullptr : positions.data(); }
  std::int64_t position(std::int64_t row) const {
    return positions.empty() ? row % time : positions[static_cast<std::size_t>(row)];
  }

  Case(std::int64_t text_count, std::int64_t length, std::int64_t channel_count, std::int64_t taps)
      : texts(text_count),
        time(length),
        channels(channel_count),
        width(taps),
        x(normal_numbers(1, rows() * channels)),
        weight(normal_numbers(2, width * channels)),
        dout(normal_numbers(3, rows() * channels)) {}

  std::int64_t rows() const { return texts * time; }

  // Calls body(to, from, weight's element) for each pair of an output and an input that it depends on.
  template <typename Body>
  void for_each_term(const Body& body) const {
    for (std::int64_t row = 0; row < rows(); ++row) {
      for (std::int64_t k = 0; k < width && k <= position(row); ++k) {
        for (std::int64_t c = 0; c < channels; ++c) {
          const std::int64_t to = row * channels + c;
          body(static_cast<std::size_t>(to), static_cast<std::size_t>(to - k * channels),
               static_cast<std::size_t>(k * channels + c));
        }
      }
    }
  }

  std::vector<double> output() const {
    std::vector<double> out(x.begin(), x.end());
    for_each_term([&](std::size_t to, std::size_t from, std::size_t element) {
      out[to] += static_cast<double>(weight[element]) * x[from];
    });
    return out;
  }
};

class ConvLoop : public OnEveryInstructionSet {
 protected:
  template <typename Body>
  static void for_each_case(const Body& body) {
    for (const std::int64_t channels : odd_widths) {
      for (const auto& [time, width] : {std::pair<std::int64_t, std::int64_t>{9, 4}, {3, 7}, {1, 2}, {5, 2}}) {
        SCOPED_TRACE(testing::Message() << channels << " channels, " << time << " tokens, " << width << " positions");
        body(Case(3, time, channels, width));
      }
    }
  }

  // And with documents of 1, 2, 3, … tokens, none longer than its text.
  template <typename Body>
  static void for_each_case_and_with_documents(const Body& body) {
    for_each_case([&](Case given) {
      body(given);
      SCOPED_TRACE("documents");
      std::int64_t length = 1, position = 0;
      for (std::int64_t row = 0; row < given.rows(); ++row) {
        if (row % given.time == 0 || position == length) {
          length = position == length ? length + 1 : length;
          position = 0;
        }
        given.positions.push_back(position++);
      }
      body(given);
    });
  }

  std::vector<float> output(const Case& given) const {
    std::vector<float> out(given.x.size());
    const std::int64_t first = given.rows() / 2;  // in the middle of a text
    for (const auto& [begin, end] : {std::pair(first, given.rows()), std::pair<std::int64_t, std::int64_t>(0, first)}) {
      loops().conv_forward(given.x.data(), given.weight.data(), given.given_positions(), out.data(), begin, end - begin,
                           given.time, given.channels, given.width);
    }
    return out;
  }
};

TEST_P(ConvLoop, ForwardIsTheFormula) {
  for_each_case_and_with_documents([&](const Case& given) {
    EXPECT_LT(largest_error(output(given), given.output()), sum_error(static_cast<double>(given.width + 1)));
  });
}

TEST_P(ConvLoop, BackwardIsTheTransposeAndAddsToTheWeightGradient) {
  for_each_case_and_with_documents([&](const Case& given) {
    std::vector<double> dx(given.dout.begin(), given.dout.end()), dweight(given.weight.size(), 0.5);
    given.for_each_term([&](std::size_t to, std::size_t from, std::size_t element) {
      dx[from] += static_cast<double>(given.weight[element]) * given.dout[to];
      dweight[element] += static_cast<double>(given.x[from]) * given.dout[to];
    });
    std::vector<float> actual_dx(given.x.size()), actual_dweight(given.weight.size(), 0.5f);
    const std::int64_t first = given.rows() / 2;
    for (const auto& [begin, end] : {std::pair<std::int64_t, std::int64_t>(0, first), std::pair(first, given.rows())}) {
      loops().conv_backward(given.dout.data(), given.x.data(), given.weight.data(), given.given_positions(),
                            actual_dx.data(), actual_dweight.data(), begin, end - begin, given.time, given.channels,
                            given.width);
    }
    EXPECT_LT(largest_error(actual_dx, dx), sum_error(static_cast<double>(given.width + 1)));
    EXPECT_LT(largest_error(actual_dweight, dweight), sum_error(static_cast<double>(given.rows() + 1)));
  });
}

// Channels split in two, as over threads; the last token once more, as on a GPU that ran ahead in vain.
TEST_P(ConvLoop, OneTokenAfterTheOtherGivesTheSame) {
  for_each_case([&](const Case& given) {
    const std::vector<float> expected = output(given);
    for (std::int64_t text = 0; text < given.texts; ++text) {
      std::vector<float> ring(static_cast<std::size_t>(given.width * given.channels), NAN);
      for (std::int64_t t = 0; t < given.time; ++t) {
        const auto place = static_cast<std::ptrdiff_t>((text * given.time + t) * given.channels);
        const std::vector<float> wanted(expected.begin() + place, expected.begin() + place + given.channels);
        for (int again = 0; again < 2; ++again) {
          std::vector<float> row(given.x.begin() + place, given.x.begin() + place + given.channels);
          const std::int64_t half = given.channels / 2;
          for (const auto& [first, last] :
               {std::pair<std::int64_t, std::int64_t>(0, half), std::pair(half, given.channels)}) {
            loops().conv_cached(row.data(), ring.data(), given.weight.data(), row.data(), t, given.channels,
                                given.width, first, last);
          }
          EXPECT_LT(largest_error(row, wanted), sum_error(static_cast<double>(given.width + 1))) << t;
        }
      }
    }
  });
}

INKLING_ON_EVERY_INSTRUCTION_SET(ConvLoop);

}  // namespace
}  // namespace inkling::test
