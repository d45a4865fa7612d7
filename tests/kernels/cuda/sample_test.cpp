#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "device_array.h"

namespace inkling {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// The token that a row's logits, context and random number lead to, in double; and how far the closest decision was
// from another outcome, relative to what it compared.
struct Answer {
  std::int64_t token;
  double margin;
};

std::vector<double> penalized(const std::vector<float>& logits, const std::vector<std::int64_t>& context,
                              double penalty) {
  std::vector<double> values(logits.begin(), logits.end());
  for (const std::int64_t token : std::set<std::int64_t>(context.begin(), context.end())) {
    if (token >= static_cast<std::int64_t>(values.size())) continue;
    double& value = values[static_cast<std::size_t>(token)];
    value = value > 0 ? value / penalty : value * penalty;
  }
  return values;
}

// How many of `weights` it takes to reach p of their sum.
std::size_t nucleus(const std::vector<double>& weights, double p, double& margin) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  double sum = 0;
  std::size_t count = 0;
  while (count < weights.size() && sum < p * total) {
    sum += weights[count++];
    margin = std::min(margin, std::fabs(sum / total - p));
  }
  return count;
}

Answer reference(const std::vector<float>& logits, const std::vector<std::int64_t>& context,
                 const SamplingSettings& settings, std::uint64_t random) {
  if (std::any_of(logits.begin(), logits.end(), [](float v) { return !(v < INFINITY); })) return {-1, infinity};
  const std::vector<double> values = penalized(logits, context, settings.repetition_penalty);
  const auto value = [&](std::int64_t id) { return values[static_cast<std::size_t>(id)]; };
  std::vector<std::int64_t> left(values.size());
  std::iota(left.begin(), left.end(), 0);
  std::stable_sort(left.begin(), left.end(), [&](auto a, auto b) { return value(a) > value(b); });
  const double largest = value(left[0]);
  if (settings.temperature == 0) return {left[0], infinity};
  if (settings.top_k > 0 && settings.top_k < left.size()) left.resize(settings.top_k);
  const auto weight = [&](std::int64_t id) {
    return largest == -infinity ? 1.0 : std::exp((value(id) - largest) / settings.temperature);
  };
  double margin = infinity;
  if (settings.top_p < 1) {
    std::vector<double> weights;
    for (const auto id : left) weights.push_back(weight(id));
    left.resize(nucleus(weights, settings.top_p, margin));
  }
  std::erase_if(left, [&](auto id) {
    if (settings.min_p > 0 && weight(id) < 1) margin = std::min(margin, std::fabs(weight(id) - settings.min_p));
    return weight(id) < settings.min_p;
  });
  std::sort(left.begin(), left.end());
  double total = 0;
  for (const auto id : left) total += weight(id);
  const double unit = static_cast<double>(random >> 11) * 0x1p-53;
  double sum = 0;
  for (const auto id : left) {
    sum += weight(id);
    margin = std::min(margin, std::fabs(sum / total - unit));
    if (sum > unit * total) return {id, margin};
  }
  return {left.back(), 0};
}

// Shape::rows are the sequences, Shape::channels the vocabulary.
class SampleKernels : public DeviceKernels {
 protected:
  void SetUp() override {
    DeviceKernels::SetUp();
    logits = normals<float>(rows * channels, 1);
    for (float& logit : logits) logit *= 3;
    for (std::int64_t row = 0; row < rows; ++row) {
      keys.push_back(random_bits(3, static_cast<std::uint64_t>(row)));
      places.push_back(100 * row);
      lengths.push_back(std::max<std::int64_t>(0, block + 3 - 2 * row));  // the first two are longer than what is kept
    }
    // A few tokens again and again, one of them past the vocabulary.
    for (std::int64_t i = 0; i < rows * block; ++i)
      contexts.push_back(i % 6 == 0 ? channels : i * i % 7 * 5 % channels);
  }

  std::vector<std::int64_t> context_of(std::int64_t row) const {
    const auto begin = contexts.begin() + row * block;
    return {begin, begin + std::min(block, lengths[static_cast<std::size_t>(row)])};
  }

  // Draws `count` tokens for every row and expects the reference's. Behind the vocabulary stand a large logit and NaN.
  void expect_reference(const SamplingSettings& settings, std::int64_t stride, int count) {
    std::vector<float> padded(static_cast<std::size_t>(rows * stride), NAN);
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto own = padded.begin() + row * stride;
      std::copy_n(logits.begin() + row * channels, channels, own);
      if (stride > channels) own[channels] = 1000;
    }
    const DeviceArray<std::int64_t> device_lengths(lengths), device_places(places);
    const DeviceArray<std::uint64_t> device_keys(keys);
    for (int i = 0; i < count; ++i) {
      const DeviceArray<std::int64_t> device_contexts(contexts), drawn(rows),
          tokens(std::vector<std::int64_t>(rows, 9));
      const DeviceArray<float> device_logits(padded);
      cuda_kernels<float>().sample(device_logits.get(), device_contexts.get(), device_lengths.get(), device_keys.get(),
                                   device_places.get(), tokens.get(), drawn.get(), settings, rows, channels, stride,
                                   block, nullptr);
      const auto left = device_logits.read();
      for (std::int64_t row = 0; row < rows && stride > channels; ++row) {
        EXPECT_EQ(left[static_cast<std::size_t>(row * stride + channels)], 1000);
      }
      expect_drawn(settings, drawn.read(), tokens.read(), device_contexts.read());
      EXPECT_EQ(device_places.read(), places);
    }
  }

  // `places` go on to the next ones.
  void expect_drawn(const SamplingSettings& settings, const std::vector<std::int64_t>& drawn,
                    const std::vector<std::int64_t>& tokens, const std::vector<std::int64_t>& contexts_after) {
    std::vector<std::int64_t> wanted = contexts;
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto r = static_cast<std::size_t>(row);
      const std::vector<float> own(logits.begin() + row * channels, logits.begin() + (row + 1) * channels);
      const Answer answer =
          reference(own, context_of(row), settings, random_bits(keys[r], static_cast<std::uint64_t>(places[r])));
      if (answer.margin > rounding_error(function_roundings)) {
        EXPECT_EQ(drawn[r], answer.token) << "row " << row << " at place " << places[r];
      } else {
        ++close_calls;
      }
      EXPECT_EQ(tokens[r], drawn[r] < 0 ? 9 : drawn[r]);
      if (drawn[r] < 0) continue;
      wanted[static_cast<std::size_t>(row * block + lengths[r] % block)] = drawn[r];
      ++places[r];
    }
    EXPECT_EQ(contexts_after, wanted);
  }

  static constexpr std::int64_t block = 20;
  std::vector<float> logits;
  std::vector<std::int64_t> contexts, lengths, places;
  std::vector<std::uint64_t> keys;
  int close_calls = 0;
};

std::vector<SamplingSettings> all_settings() {
#ifdef __SANITIZE_ADDRESS__  // turns of threads take ten times as long; what is read hardly depends on the settings
  return {{}, {.temperature = 3, .top_k = 25, .top_p = 0.8, .min_p = 0.1, .repetition_penalty = 1.2}};
#endif
  return {
      {},
      {.temperature = 0},
      {.temperature = 0, .repetition_penalty = 2},
      {.temperature = 1e-300},
      {.temperature = 1e300},
      {.temperature = 3},
      {.temperature = 3, .top_k = 1},
      {.temperature = 3, .top_k = 5},
      {.temperature = 3, .top_k = 1000000},
      {.temperature = 3, .top_p = 0.37},
      {.temperature = 2, .top_p = 0.93},
      {.temperature = 2, .top_p = 1e-9},
      {.temperature = 3, .min_p = 0.2},
      {.temperature = 2, .min_p = 1},
      {.temperature = 2, .repetition_penalty = 1.7},
      {.temperature = 2, .repetition_penalty = 0.4},
      {.temperature = 3, .top_k = 9, .top_p = 0.7},
      {.temperature = 3, .top_k = 25, .top_p = 0.8, .min_p = 0.1, .repetition_penalty = 1.2},
  };
}

testing::Message described(const SamplingSettings& settings) {
  return testing::Message() << "temperature " << settings.temperature << ", top_k " << settings.top_k << ", top_p "
                            << settings.top_p << ", min_p " << settings.min_p << ", penalty "
                            << settings.repetition_penalty;
}

TEST_P(SampleKernels, DrawsTheTokenOfTheReference) {
  // On 16-byte boundaries and off them.
  for (const std::int64_t stride : {(channels + 7) / 4 * 4, channels | 1}) {
    for (const SamplingSettings& settings : all_settings()) {
      SCOPED_TRACE(described(settings) << ", stride " << stride);
      expect_reference(settings, stride, 1);
    }
  }
  EXPECT_LE(close_calls, 1);
}

TEST_P(SampleKernels, AmongEqualLogitsTheLowestIdsStay) {
  for (const float share : {0.3f, 1e9f}) {  // few values; all alike
    for (float& logit : logits) logit = std::round(logit * 0.3f / share);
    for (std::size_t i = 0; i < logits.size(); ++i) {
      if (logits[i] == 0) logits[i] = i % 3 == 0 ? -0.0f : 0.0f;
    }
    for (const SamplingSettings& settings :
         {SamplingSettings{.temperature = 0}, SamplingSettings{.temperature = 2},
          SamplingSettings{.temperature = 2, .top_k = 4}, SamplingSettings{.temperature = 2, .top_p = 0.4321}}) {
      SCOPED_TRACE(described(settings) << ", share " << share);
      expect_reference(settings, channels, 1);
    }
  }
  EXPECT_LE(close_calls, 1);
}

TEST_P(SampleKernels, MinusInfinityIsNeverDrawn) {
  for (const std::int64_t possible : {2, 1000000}) {  // every second token; all but none
    for (std::size_t i = 0; i < logits.size(); ++i) {
      if (i % 2 == 0 || possible > 2) logits[i] = -INFINITY;
    }
    for (const SamplingSettings& settings :
         {SamplingSettings{.temperature = 0}, SamplingSettings{.temperature = 5},
          SamplingSettings{.temperature = 1e300}, SamplingSettings{.temperature = 5, .top_k = 3, .top_p = 0.789}}) {
      SCOPED_TRACE(described(settings));
      expect_reference(settings, channels, 1);
    }
  }
  EXPECT_LE(close_calls, 1);
}

TEST_P(SampleKernels, BrokenLogitsGiveNoToken) {
  for (const float broken : {NAN, -NAN, INFINITY}) {
    for (const std::int64_t id : {std::int64_t{0}, channels - 1}) {
      const auto at_broken = static_cast<std::size_t>((rows - 1) * channels + id);
      const float whole = std::exchange(logits[at_broken], broken);
      for (const SamplingSettings& settings :
           {SamplingSettings{}, SamplingSettings{.temperature = 0, .repetition_penalty = 2}}) {
        expect_reference(settings, channels + 3, 1);
      }
      logits[at_broken] = whole;
    }
  }
  EXPECT_LE(close_calls, 1);
}

// 32 warps share the row; a pack is four logits.
#ifdef __SANITIZE_ADDRESS__
INKLING_ON_SHAPES(SampleKernels, Shape{2, 7}, Shape{1, 700});
#else
INKLING_ON_SHAPES(SampleKernels, Shape{1, 1}, Shape{4, 7}, Shape{2, 33}, Shape{1, 700}, Shape{1, 9001});
#endif

class LongContextKernels : public DeviceKernels {};

TEST_P(LongContextKernels, EveryTokenIsPenalizedOnce) {
  const std::vector<float> logits = {1, 8, 5, 9};
  const SamplingSettings settings = {.temperature = 0, .repetition_penalty = 1.5};
  for (const std::int64_t last : {1, 3}) {
    std::vector<std::int64_t> context(static_cast<std::size_t>(rows), 1);
    context[1] = 3;
    context.back() = rows == 2 ? 3 : last;
    const DeviceArray<float> device_logits(logits);
    const DeviceArray<std::int64_t> contexts(context), lengths(std::vector<std::int64_t>{rows}),
        places(std::vector<std::int64_t>{0}), tokens(1), drawn(1);
    const DeviceArray<std::uint64_t> keys(std::vector<std::uint64_t>{0});
    cuda_kernels<BFloat16>().sample(device_logits.get(), contexts.get(), lengths.get(), keys.get(), places.get(),
                                    tokens.get(), drawn.get(), settings, 1, 4, 4, rows, nullptr);
    EXPECT_EQ(device_logits.read(), (std::vector<float>{1, 8 / 1.5f, 5, 9 / 1.5f}));
    EXPECT_EQ(tokens.read()[0], 3) << "which one more division would put behind token 2";
  }
}

// A block looks at 1024 tokens of the context at once.
INKLING_ON_SHAPES(LongContextKernels, Shape{2, 1}, Shape{1024, 1}, Shape{1025, 1}, Shape{3000, 1});

}  // namespace
}  // namespace inkling
