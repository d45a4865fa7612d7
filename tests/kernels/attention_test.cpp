// Causal attention of one head, forward and backward, against the textbook in double precision.
#include "base/strings.h"
#include "tests/kernels/on_every_instruction_set.h"

namespace inkling::test {
namespace {

struct Shape {
  std::int64_t time, head_size;
  std::int64_t window = AttentionPattern::everything;
  std::int64_t first = 0, step = 1;  // the positions that its rows have in a longer text

  std::int64_t text() const { return first + time * step; }
  std::int64_t first_seen(std::int64_t query) const { return query < window ? 0 : query - window + 1; }
};

class AttentionLoop : public OnEveryInstructionSet {
 protected:
  void expect_textbook(const Shape& shape) const;
};

// Lengths below, at and beyond a tile of queries and a block of the backward pass; heads of odd widths too.
const std::vector<Shape> shapes = {{1, 8},   {2, 16},  {11, 7},  {12, 32}, {13, 20},
                                   {48, 16}, {49, 33}, {64, 32}, {130, 64}};

// Windows below, at and beyond a register, a tile of queries and a block, up to the whole length; and rows of several
// interleaved texts.
std::vector<Shape> windowed_shapes() {
  std::vector<Shape> all;
  for (const std::int64_t window : {1, 2, 3, 4, 5, 8, 11, 12, 13, 16, 17, 36, 47, 48, 49, 60, 96, 97, 129, 130, 500}) {
    for (const std::int64_t time : {1, 12, 50, 130}) all.push_back({time, 20, window});
    all.push_back({145, 8, window, 2, 3});
  }
  return all;
}

using Matrix = std::vector<double>;  // [T, D] or [T, T]

struct Head {
  Shape shape;
  double dropout;
  std::vector<float> packed, dout;  // [T, 3 C] and [T, C] with C = D + 3: the rows hold other things too
  std::int64_t channels = shape.head_size + 3;

  Head(Shape size, double drop)
      : shape(size),
        dropout(drop),
        packed(normal_numbers(1, size.time * 3 * (size.head_size + 3))),
        dout(normal_numbers(2, size.time * (size.head_size + 3))) {}

  AttentionHead head() const {
    return {.queries = packed.data() + 1,
            .keys = packed.data() + channels + 1,
            .values = packed.data() + 2 * channels + 1,
            .row = 3 * channels,
            .out_row = channels,
            .time = shape.time,
            .head_size = shape.head_size,
            .window = shape.window,
            .index = 5,
            .text = shape.text(),
            .first = shape.first,
            .step = shape.step,
            .dropout_key = 99,
            .dropout_threshold = static_cast<std::uint32_t>(dropout * 4294967296.0),
            .dropout_scale = static_cast<float>(1.0 / (1.0 - dropout))};
  }

  // Part 0: queries, 1: keys, 2: values.
  double in(std::int64_t part, std::int64_t t, std::int64_t d) const {
    return packed[static_cast<std::size_t>((t * 3 + part) * channels + 1 + d)];
  }
  double upstream(std::int64_t t, std::int64_t d) const { return dout[static_cast<std::size_t>(t * channels + 1 + d)]; }
  double kept(std::int64_t query, std::int64_t key) const {
    if (dropout == 0.0) return 1.0;
    const std::int64_t text = shape.text();
    const std::int64_t from = shape.first + query * shape.step, to = shape.first + key * shape.step;
    const auto place = static_cast<std::uint64_t>((5 * text + from) * text + to);
    return static_cast<double>(random_bits(99, place) >> 32) >= std::floor(dropout * 4294967296.0)
               ? 1.0 / (1.0 - dropout)
               : 0.0;
  }
  std::size_t place(std::int64_t t, std::int64_t d) const { return static_cast<std::size_t>(t * shape.head_size + d); }
};

struct Textbook {
  Matrix out, dqueries, dkeys, dvalues;
  std::vector<double> logsumexp;
  double largest_score = 0.0;

  explicit Textbook(const Head& head) {
    const std::int64_t time = head.shape.time, size = head.shape.head_size;
    for (Matrix* matrix : {&out, &dqueries, &dkeys, &dvalues})
      matrix->assign(static_cast<std::size_t>(time * size), 0.0);
    const double scale = 1.0 / std::sqrt(static_cast<double>(size));
    for (std::int64_t query = 0; query < time; ++query) {
      const std::int64_t first = head.shape.first_seen(query);
      std::vector<double> probabilities(static_cast<std::size_t>(first));
      double total = 0.0;
      for (std::int64_t key = first; key <= query; ++key) {
        double score = 0.0;
        for (std::int64_t d = 0; d < size; ++d) score += head.in(0, query, d) * head.in(1, key, d);
        largest_score = std::max(largest_score, std::abs(score * scale));
        probabilities.push_back(std::exp(score * scale));
        total += probabilities.back();
      }
      logsumexp.push_back(std::log(total));
      std::vector<double> dprobabilities(static_cast<std::size_t>(first));
      double mean = 0.0;
      for (std::int64_t key = first; key <= query; ++key) {
        double& probability = probabilities[static_cast<std::size_t>(key)];
        probability /= total;
        double dprobability = 0.0;
        for (std::int64_t d = 0; d < size; ++d) {
          out[head.place(query, d)] += probability * head.kept(query, key) * head.in(2, key, d);
          dvalues[head.place(key, d)] += probability * head.kept(query, key) * head.upstream(query, d);
          dprobability += head.kept(query, key) * head.upstream(query, d) * head.in(2, key, d);
        }
        dprobabilities.push_back(dprobability);
        mean += probability * dprobability;
      }
      for (std::int64_t key = first; key <= query; ++key) {  // through the softmax
        const auto i = static_cast<std::size_t>(key);
        const double dscore = probabilities[i] * (dprobabilities[i] - mean) * scale;
        for (std::int64_t d = 0; d < size; ++d) {
          dqueries[head.place(query, d)] += dscore * head.in(1, key, d);
          dkeys[head.place(key, d)] += dscore * head.in(0, query, d);
        }
      }
    }
  }
};

// Columns [1 + part * C, 1 + part * C + D) of rows of `row` floats.
std::vector<float> columns(const std::vector<float>& from, const Head& head, std::int64_t row, std::int64_t first) {
  std::vector<float> picked;
  for (std::int64_t t = 0; t < head.shape.time; ++t) {
    for (std::int64_t d = 0; d < head.shape.head_size; ++d) {
      picked.push_back(from[static_cast<std::size_t>(t * row + first + d)]);
    }
  }
  return picked;
}

void AttentionLoop::expect_textbook(const Shape& shape) const {
  for (const double dropout : {0.0, 0.3}) {
    const Head head(shape, dropout);
    const Textbook expected(head);
    std::vector<float> scratch(
        static_cast<std::size_t>(loops().attention_scratch(shape.time, shape.head_size, shape.window)), NAN);
    std::vector<float> out(head.dout.size(), NAN), logsumexp(static_cast<std::size_t>(shape.time), NAN);
    loops().attention_forward(head.head(), out.data() + 1, logsumexp.data(), scratch.data());
    const std::string what =
        str(shape.time, " long, ", shape.head_size, " wide, window ", shape.window, ", dropout ", dropout);
    // Products of queries and keys, then a sum over the keys; backward as much again, and sums over the queries.
    const double scores = in_softmax(static_cast<double>(shape.head_size), expected.largest_score);
    const double error = rounding_error(scores + static_cast<double>(shape.time) + function_roundings);
    const double gradient_error =
        rounding_error(2 * scores + 2 * static_cast<double>(shape.time + shape.head_size) + function_roundings) /
        (1.0 - dropout);
    EXPECT_LT(largest_error(columns(out, head, head.channels, 1), expected.out), error / (1.0 - dropout)) << what;
    EXPECT_LT(largest_error(logsumexp, expected.logsumexp), error) << what;

    std::fill(scratch.begin(), scratch.end(), NAN);
    std::vector<float> gradient(head.packed.size(), NAN);
    float* const dqueries = gradient.data() + 1;
    loops().attention_backward(head.head(), out.data() + 1, logsumexp.data(), head.dout.data() + 1, dqueries,
                               dqueries + head.channels, dqueries + 2 * head.channels, scratch.data());
    const std::int64_t row = 3 * head.channels;
    EXPECT_LT(largest_error(columns(gradient, head, row, 1), expected.dqueries), gradient_error) << what;
    EXPECT_LT(largest_error(columns(gradient, head, row, 1 + head.channels), expected.dkeys), gradient_error) << what;
    EXPECT_LT(largest_error(columns(gradient, head, row, 1 + 2 * head.channels), expected.dvalues), gradient_error)
        << what;
    for (std::size_t i = 0; i < gradient.size(); i += static_cast<std::size_t>(row)) {
      EXPECT_TRUE(std::isnan(gradient[i])) << what << ": wrote beside its columns";
    }
  }
}

TEST_P(AttentionLoop, IsTheTextbooksForwardAndBackwardWithAndWithoutDropout) {
  for (const Shape& shape : shapes) expect_textbook(shape);
}

TEST_P(AttentionLoop, SeesAWindowAndNoMore) {
  for (const Shape& shape : windowed_shapes()) expect_textbook(shape);
}

TEST_P(AttentionLoop, LargeScoresStayFinite) {
  Head head({20, 16}, 0.0);
  for (float& value : head.packed) value *= 40.0f;
  std::vector<float> scratch(static_cast<std::size_t>(loops().attention_scratch(20, 16, AttentionPattern::everything)),
                             NAN);
  std::vector<float> out(head.dout.size(), NAN), logsumexp(20, NAN);
  loops().attention_forward(head.head(), out.data() + 1, logsumexp.data(), scratch.data());
  for (const float value : columns(out, head, head.channels, 1)) EXPECT_TRUE(std::isfinite(value));
}

INKLING_ON_EVERY_INSTRUCTION_SET(AttentionLoop);

}  // namespace
}  // namespace inkling::test
