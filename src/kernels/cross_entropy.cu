// Softmax, cross-entropy and its gradient in place. A row belongs to a warp where the vocabulary is small, else to a
// block. The first pass over the row finds its maximum and the sum of exponentials together (Milakov, Gimelshein 2018),
// the second writes the gradient.
#include <cmath>

#include "kernels/cuda_tables.h"
#include "kernels/reductions.h"

namespace inkling::cuda {
namespace {

constexpr int longest_of_warp = 1024;
constexpr int threads_of_long_row = 512;
// Loads in flight per thread. Two leave registers for two blocks on a multiprocessor, which wait for each other less.
template <int threads>
constexpr int packs_at_once = threads == warp_size ? 4 : 2;

// The sum of e^(x - largest) over the x seen so far.
struct SoftmaxSum {
  float largest, total;
};

template <int width, int count>
__device__ inline void include(SoftmaxSum& sum, const Pack<width> (&packs)[count]) {
  float largest = sum.largest;
  for (const Pack<width>& values : packs) {
    for (int i = 0; i < width; ++i) largest = fmaxf(largest, values.at[i]);
  }
  if (largest == -INFINITY) return;  // nothing but padding so far
  sum.total *= __expf(sum.largest - largest);
  sum.largest = largest;
  for (const Pack<width>& values : packs) {
    for (int i = 0; i < width; ++i) sum.total += __expf(values.at[i] - largest);
  }
}

// A thread's packs first, first + 1, … of a row, of which every `threads`-th is its own; -infinity, whose exponential
// is 0, past the vocabulary.
template <int width, int threads, typename Element>
__device__ inline void load_logits(Pack<width> (&packs)[packs_at_once<threads>], const Element* row, int first,
                                   int rank, float softcap, int vocabulary) {
#pragma unroll
  for (int p = 0; p < packs_at_once<threads>; ++p) {
    const int column = ((first + p) * threads + rank) * width;
    packs[p] = column < vocabulary ? load<width>(row + column) : filled<width>(-INFINITY);
    for (int i = 0; i < width; ++i) {
      if (softcap > 0.0f) packs[p].at[i] = softcap * tanhf(packs[p].at[i] / softcap);
      if (column + i >= vocabulary) packs[p].at[i] = -INFINITY;
    }
  }
}

template <typename Element, int width, int threads>
__device__ inline void clear_row(Element* row, int rank, int stride) {
  for (int column = rank * width; column < stride; column += threads * width) {
    store(row + column, filled<width>(0.0f));
  }
}

template <typename Element, int width, int threads>
__global__ void __launch_bounds__(threads == warp_size ? block_size : threads, threads == warp_size ? 1 : 2)
    cross_entropy_kernel(Element* logits, const std::int64_t* targets, float* losses, const float* scale, float softcap,
                         std::int64_t rows, int vocabulary, int stride) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / threads) + threadIdx.x / threads;
  if (row >= rows) return;  // all threads of a row
  const int rank = static_cast<int>(threadIdx.x) % threads;
  Element* const values = logits + row * stride;
  const std::int64_t target = targets[row];
  if (target < 0) {
    clear_row<Element, width, threads>(values, rank, stride);
    if (rank == 0) losses[row] = 0.0f;
    return;
  }
  SoftmaxSum sum = {-INFINITY, 0.0f};
  Pack<width> packs[packs_at_once<threads>];
  int first = 0;
  for (; first * threads * width < stride; first += packs_at_once<threads>) {
    load_logits<width, threads>(packs, values, first, rank, softcap, vocabulary);
    include(sum, packs);
  }
  const float largest = group_max<threads>(sum.largest);
  const float total = group_sum<threads>(sum.total * __expf(sum.largest - largest));
  const float inverse = 1.0f / total;
  const float factor = *scale;
  // Backwards: what was read last is what the caches are most likely to hold still.
  for (first -= packs_at_once<threads>; first >= 0; first -= packs_at_once<threads>) {
    load_logits<width, threads>(packs, values, first, rank, softcap, vocabulary);
#pragma unroll
    for (int p = 0; p < packs_at_once<threads>; ++p) {
      const int column = ((first + p) * threads + rank) * width;
      if (column >= stride) break;
      for (int i = 0; i < width; ++i) {
        const float logit = packs[p].at[i];
        const float probability = __expf(logit - largest) * inverse;
        const bool hit = column + i == target;
        if (hit) losses[row] = logf(total) + largest - logit;
        const float tanh = softcap > 0.0f && column + i < vocabulary ? logit / softcap : 0.0f;
        packs[p].at[i] = (hit ? probability - 1.0f : probability) * factor * (1.0f - tanh * tanh);
      }
      store(values + column, packs[p]);
    }
  }
}

template <typename Element>
void cross_entropy(Element* logits, const std::int64_t* targets, float* losses, const float* scale, float softcap,
                   std::int64_t rows, std::int64_t vocabulary, std::int64_t stride, Stream stream) {
  with_width<Element>(stride, aligned(logits), [&](auto width) {
    const auto queue = [&](auto threads, int block) {
      launch("cross_entropy", cross_entropy_kernel<Element, width(), threads()>, blocks_for(rows, block / threads()),
             block, stream, logits, targets, losses, scale, softcap, rows, static_cast<int>(vocabulary),
             static_cast<int>(stride));
    };
    if (stride <= longest_of_warp) return queue(std::integral_constant<int, warp_size>{}, block_size);
    queue(std::integral_constant<int, threads_of_long_row>{}, threads_of_long_row);
  });
}

}  // namespace

template <typename Element>
void fill_cross_entropy(CudaKernels<Element>& table) {
  table.cross_entropy = cross_entropy<Element>;
}
template void fill_cross_entropy(CudaKernels<float>&);
template void fill_cross_entropy(CudaKernels<BFloat16>&);

}  // namespace inkling::cuda
