// The next token, drawn where its logits are. A row is one block's; each of its passes over the logits gives warps
// neighbouring shares of the row. Weights are integers: their sums are exact, whatever their order, and so is the draw.
#include <cfloat>
#include <cmath>
#include <limits>

#include "kernels/cuda_elements.h"
#include "kernels/cuda_tables.h"
#include "kernels/reductions.h"

namespace inkling::cuda {
namespace {

constexpr int threads = 1024;
constexpr int warps = threads / warp_size;
static_assert(warps == warp_size);  // lane i stands for warp i in what they have in common

using Weight = std::uint64_t;
constexpr float largest_weight = 0x1p36f;  // of the likeliest token: the sum of 2^28 of them is a Weight

// SamplingSettings as the passes need them.
struct Sampling {
  float penalty, inverse_temperature;
  bool greedy;
  std::uint64_t top_k;
  double top_p;
  Weight least;
};

// Rises with the value, -0 being +0.
__device__ inline std::uint32_t key_of(float value) {
  const std::uint32_t bits = value == 0.0f ? 0u : __float_as_uint(value);
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
}
__device__ inline float value_of(std::uint32_t key) {
  return __uint_as_float(key >> 31 != 0 ? key & 0x7fffffffu : ~key);
}

struct Row {
  const float* logits;
  int vocabulary;
  float largest, inverse_temperature;
  // The last token that stays, in the order of falling values and, among equals, of rising ids.
  std::uint32_t last_key;
  int last_id;

  __device__ bool keeps(float value, int id) const {
    const std::uint32_t key = key_of(value);
    return key > last_key || (key == last_key && id <= last_id);
  }
  __device__ Weight weight(float value, int id) const {
    // NaN, where all logits are -infinity, becomes 0: all weights are equal.
    const float exponent = fminf(0.0f, (value - largest) * inverse_temperature);
    const Weight weight = __float2ull_rn(__expf(exponent) * largest_weight);
    return keeps(value, id) ? weight : 0;
  }
};

// A range of tokens, of which each warp takes a share.
struct Range {
  int begin, end;

  template <int width>
  __device__ int share() const {
    return (end - begin + warps * width - 1) / (warps * width) * width;
  }
  template <int width>
  __device__ Range share_of(int warp) const {
    const int first = begin + warp * share<width>();
    return {first, min(end, first + share<width>())};
  }
};

__device__ inline int warp_of_thread() { return static_cast<int>(threadIdx.x) / warp_size; }

// Calls function(value, id) for the tokens of this thread.
template <int width, typename Function>
__device__ inline void for_own_tokens(const float* logits, Range range, Function function) {
  constexpr int at_once = 4;  // loads in flight per thread
  constexpr int step = warp_size * width;
  const Range own = range.share_of<width>(warp_of_thread());
  for (int first = own.begin + lane_of_thread() * width; first < own.end; first += at_once * step) {
    Pack<width> packs[at_once];
#pragma unroll
    for (int p = 0; p < at_once; ++p) {
      const int id = first + p * step;
      packs[p] = id < own.end ? load<width>(logits + id) : filled<width>(0.0f);
    }
#pragma unroll
    for (int i = 0; i < at_once * width; ++i) {
      const int id = first + i / width * step + i % width;
      if (id < own.end) function(packs[i / width].at[i % width], id);
    }
  }
}

template <typename Operation>
__device__ inline Weight over_warp(Weight value, Operation operation) {
#pragma unroll
  for (int offset = warp_size / 2; offset > 0; offset /= 2) {
    value = operation(value, __shfl_xor_sync(0xffffffffu, value, offset));
  }
  return value;
}

// What the operation makes of all threads' values; every thread gets it. Warp i joins the i-th of what the warps have.
template <int count, typename Operation>
__device__ inline void over_block(Weight (&values)[count], Operation operation) {
  __shared__ Weight parts[count][warps];
  __shared__ Weight results[count];
#pragma unroll
  for (int i = 0; i < count; ++i) {
    values[i] = over_warp(values[i], operation);
    if (lane_of_thread() == 0) parts[i][warp_of_thread()] = values[i];
  }
  __syncthreads();  // which the last call's results have been read before, too
  if (warp_of_thread() < count) {
    const Weight result = over_warp(parts[warp_of_thread()][lane_of_thread()], operation);
    if (lane_of_thread() == 0) results[warp_of_thread()] = result;
  }
  __syncthreads();  // which the parts have been read before, too
#pragma unroll
  for (int i = 0; i < count; ++i) values[i] = results[i];
}

struct Sum {
  __device__ Weight operator()(Weight a, Weight b) const { return a + b; }
};
struct Largest {
  __device__ Weight operator()(Weight a, Weight b) const { return a > b ? a : b; }
};

// Step 1. Threads read the logits of their positions before any is written: a token that occurs twice gets the same
// value twice.
__device__ inline void penalize(float* logits, int vocabulary, const std::int64_t* context, std::int64_t length,
                                float penalty) {
  for (std::int64_t first = 0; first < length; first += threads) {
    const std::int64_t token = first + threadIdx.x < length ? context[first + threadIdx.x] : -1;
    bool counts = token >= 0 && token < vocabulary;
    for (std::int64_t i = 0; counts && i < first; ++i) counts = context[i] != token;
    const float logit = counts ? logits[token] : 0.0f;
    __syncthreads();
    // A tiny penalty must not make it infinite.
    if (counts && logit < INFINITY) logits[token] = fminf(FLT_MAX, logit > 0.0f ? logit / penalty : logit * penalty);
    __syncthreads();
  }
}

// The key of the largest logit in the upper half, all bits set if one is NaN or +infinity; below it the complement of
// the lowest id that has it.
template <int width>
__device__ inline std::uint64_t likeliest(const float* logits, int vocabulary) {
  Weight best[1] = {};
  for_own_tokens<width>(logits, {0, vocabulary}, [&](float value, int id) {
    const std::uint32_t key = value < INFINITY ? key_of(value) : 0xffffffffu;
    best[0] = Largest()(best[0], static_cast<Weight>(key) << 32 | ~static_cast<std::uint32_t>(id));
  });
  over_block(best, Largest());
  return best[0];
}

// The warp in whose share of the range the sum of measures, token after token, first exceeds `wanted`; and how much of
// `wanted` is left there.
struct Found {
  int warp;
  Weight wanted;
};

// wanted_of: `wanted`, given the sum over the range.
template <int width, typename Measure, typename Wanted>
__device__ inline Found find_warp(const float* logits, Range range, Measure measure, Wanted wanted_of) {
  __shared__ Weight parts[warps];
  __shared__ Found found;
  Weight sum = 0;
  for_own_tokens<width>(logits, range, [&](float value, int id) { sum += measure(value, id); });
  sum = over_warp(sum, Sum());
  if (lane_of_thread() == 0) parts[warp_of_thread()] = sum;
  __syncthreads();  // which the last call's result has been read before, too
  if (warp_of_thread() == 0) {
    Weight through = parts[lane_of_thread()];  // the sum over the shares of warps 0 to this lane
#pragma unroll
    for (int offset = 1; offset < warp_size; offset *= 2) {
      const Weight below = __shfl_up_sync(0xffffffffu, through, offset);
      if (lane_of_thread() >= offset) through += below;
    }
    const Weight before = through - parts[lane_of_thread()];
    const Weight wanted = wanted_of(__shfl_sync(0xffffffffu, through, warp_size - 1));
    if (before <= wanted && wanted < through) found = {lane_of_thread(), wanted - before};
  }
  __syncthreads();
  return found;
}

// The first token, in the order of ids, with which the sum of measures exceeds `wanted`: the share of the warp where
// that is so is divided among the warps again, until one token is left.
template <int width, typename Measure, typename Wanted>
__device__ inline int first_beyond(const Row& row, Measure measure, Wanted wanted_of) {
  Range range = {0, row.vocabulary};
  Found found = find_warp<width>(row.logits, range, measure, wanted_of);
  range = range.share_of<width>(found.warp);
  while (range.end - range.begin > 1) {
    found = find_warp<1>(row.logits, range, measure, [&](Weight) { return found.wanted; });
    range = range.share_of<1>(found.warp);
  }
  return range.begin;
}

// Shortens what stays of the row to the likeliest tokens whose measures reach `budget`, which is above 0 and at most
// the whole sum. The key of the last one is found two bits at a time, from the sums over what has a larger key.
template <int width, typename Measure>
__device__ inline void keep_likeliest(Row& row, Weight budget, Measure measure) {
  std::uint32_t last_key = 0;
  Weight above = 0;  // the sum over what is above all keys in question
  for (int shift = 30; shift >= 0; shift -= 2) {
    Weight sums[3] = {};
    for_own_tokens<width>(row.logits, {0, row.vocabulary}, [&](float value, int id) {
      const Weight measured = measure(value, id);
      const std::uint32_t key = key_of(value);
#pragma unroll
      for (std::uint32_t digit = 1; digit <= 3; ++digit) {
        if (key >= last_key + (digit << shift)) sums[digit - 1] += measured;
      }
    });
    over_block(sums, Sum());
    std::uint32_t digit = 3;
#pragma unroll
    for (int i = 2; i >= 0; --i) {
      if (digit == static_cast<std::uint32_t>(i) + 1 && sums[i] < budget) {
        above = sums[i];
        --digit;
      }
    }
    last_key += digit << shift;
  }
  const auto measure_of_last = [&](float value, int id) { return key_of(value) == last_key ? measure(value, id) : 0; };
  row.last_id = first_beyond<width>(row, measure_of_last, [&](Weight) { return budget - above - 1; });
  row.last_key = last_key;
}

// Steps 3 to 6.
template <int width>
__device__ inline int draw(Row& row, const Sampling& sampling, std::uint64_t random) {
  if (sampling.top_k > 0 && sampling.top_k < static_cast<std::uint64_t>(row.vocabulary)) {
    keep_likeliest<width>(row, sampling.top_k, [](float, int) -> Weight { return 1; });
  }
  const auto weight = [&](float value, int id) { return row.weight(value, id); };
  if (sampling.top_p < 1.0) {
    Weight total[1] = {};
    for_own_tokens<width>(row.logits, {0, row.vocabulary}, [&](float value, int id) { total[0] += weight(value, id); });
    over_block(total, Sum());
    const auto budget = static_cast<Weight>(ceil(sampling.top_p * static_cast<double>(total[0])));
    keep_likeliest<width>(row, min(budget, total[0]), weight);  // it may have been rounded up past 2^53
  }
  const auto likely_weight = [&](float value, int id) {
    const Weight of_token = weight(value, id);
    return of_token >= sampling.least ? of_token : 0;
  };
  // unit * total, rounded down, where unit is the upper 53 bits.
  return first_beyond<width>(row, likely_weight,
                             [&](Weight total) { return __umul64hi(random & ~std::uint64_t{0x7ff}, total); });
}

// Row blockIdx.x.
template <int width>
__global__ void __launch_bounds__(threads)
    sample_kernel(float* logits, std::int64_t* contexts, const std::int64_t* lengths, const std::uint64_t* keys,
                  std::int64_t* places, std::int64_t* tokens, std::int64_t* drawn, Sampling sampling, int vocabulary,
                  std::int64_t stride, std::int64_t block) {
  float* const own_logits = logits + blockIdx.x * stride;
  std::int64_t* const context = contexts + blockIdx.x * block;
  const std::int64_t length = lengths[blockIdx.x];
  const std::int64_t place = places[blockIdx.x];
  if (sampling.penalty != 1.0f) penalize(own_logits, vocabulary, context, min(length, block), sampling.penalty);
  const std::uint64_t best = likeliest<width>(own_logits, vocabulary);
  const auto best_key = static_cast<std::uint32_t>(best >> 32);
  int token = static_cast<int>(~static_cast<std::uint32_t>(best));
  if (best_key == 0xffffffffu) {
    token = -1;
  } else if (!sampling.greedy) {
    Row row = {own_logits, vocabulary, value_of(best_key), sampling.inverse_temperature, 0, 0};
    token = draw<width>(row, sampling, random_bits_at(keys[blockIdx.x], static_cast<std::uint64_t>(place)));
  }
  if (threadIdx.x != 0) return;
  drawn[blockIdx.x] = token;
  if (token < 0) return;
  tokens[blockIdx.x] = token;
  context[length % block] = token;
  places[blockIdx.x] = place + 1;
}

void sample(float* logits, std::int64_t* contexts, const std::int64_t* lengths, const std::uint64_t* keys,
            std::int64_t* places, std::int64_t* tokens, std::int64_t* drawn, const SamplingSettings& settings,
            std::int64_t batch, std::int64_t vocabulary, std::int64_t stride, std::int64_t block, Stream stream) {
  using Float = std::numeric_limits<float>;
  Sampling sampling = {};
  sampling.penalty = static_cast<float>(settings.repetition_penalty);
  sampling.greedy = settings.temperature == 0.0;
  if (!sampling.greedy) {
    sampling.inverse_temperature =
        static_cast<float>(std::clamp(1.0 / settings.temperature, double{Float::min()}, double{Float::max()}));
  }
  sampling.top_k = settings.top_k;
  sampling.top_p = settings.top_p;
  sampling.least = static_cast<Weight>(std::ceil(settings.min_p * static_cast<double>(largest_weight)));
  with_width<float>(stride, aligned(logits), [&](auto width) {
    launch("sample", sample_kernel<width()>, static_cast<unsigned>(batch), threads, stream, logits, contexts, lengths,
           keys, places, tokens, drawn, sampling, static_cast<int>(vocabulary), stride, block);
  });
}

}  // namespace

template <typename Element>
void fill_sample(CudaKernels<Element>& table) {
  table.sample = sample;
}
template void fill_sample(CudaKernels<float>&);
template void fill_sample(CudaKernels<BFloat16>&);

}  // namespace inkling::cuda
