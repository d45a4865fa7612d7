// Token and position embedding.
#include "kernels/cuda_tables.h"
#include "kernels/reductions.h"

namespace inkling::cuda {
namespace {

constexpr int rows_at_once = 8;  // loads in flight per thread

// This thread's columns: a warp takes 32 packs, blockIdx.y says which.
template <int width>
__device__ inline int column_of_thread() {
  return (static_cast<int>(blockIdx.y) * warp_size + lane_of_thread()) * width;
}

__device__ inline std::int64_t warp_of_grid() {
  return static_cast<std::int64_t>(blockIdx.x) * warps_per_block + threadIdx.x / warp_size;
}

// One warp per row.
template <typename Element, int width>
__global__ void __launch_bounds__(block_size)
    forward_kernel(const std::int64_t* tokens, const std::int64_t* positions, const Element* token_table,
                   const Element* position_table, Element* out, std::int64_t rows, std::int64_t time, int channels) {
  const int column = column_of_thread<width>();
  const std::int64_t row = warp_of_grid();
  if (row >= rows || column >= channels) return;
  Pack<width> sum = load<width>(token_table + tokens[row] * channels + column);
  if (position_table != nullptr) {
    const std::int64_t position = positions == nullptr ? row % time : positions[row];
    add(sum, load<width>(position_table + position * channels + column));
  }
  store(out + row * channels + column, sum);
}

// One warp per position: the rows row = position + k * time, in order.
template <typename Element, int width>
__global__ void __launch_bounds__(block_size)
    position_kernel(const Element* dout, float* dpositions, std::int64_t rows, std::int64_t time, int channels) {
  const int column = column_of_thread<width>();
  const std::int64_t position = warp_of_grid();
  if (position >= time || position >= rows || column >= channels) return;
  Pack<width> sum = filled<width>(0.0f);
#pragma unroll 4
  for (std::int64_t row = position; row < rows; row += time) add(sum, load<width>(dout + row * channels + column));
  float* const to = dpositions + position * channels + column;
  add(sum, load<width>(to));
  store(to, sum);
}

// The rows in the order of their tokens are cut into segments; a run of one token may cross several.
struct SortedRows {
  const std::int64_t* tokens;  // [rows], ascending
  const std::int64_t* order;   // [rows]: tokens[i] is the token of row order[i]
  std::int64_t rows;
  std::int64_t segment_length;

  // Whether the run at place `i` goes on at the place before.
  __device__ bool continues(std::int64_t i) const { return i > 0 && tokens[i - 1] == tokens[i]; }
};

// What a run sums up to within this segment goes to its token, if the run begins here; if it began earlier, it goes to
// pieces[segment], for the segment where it began to add.
template <int width>
__device__ inline void finish_run(const Pack<width>& sum, std::int64_t token, bool began_earlier, float* piece,
                                  float* dtokens, int channels, int column) {
  if (began_earlier) return store(piece + column, sum);
  float* const to = dtokens + token * channels + column;
  Pack<width> total = load<width>(to);
  add(total, sum);
  store(to, total);
}

// One warp per segment.
template <typename Element, int width>
__global__ void __launch_bounds__(block_size)
    segment_kernel(SortedRows sorted, const Element* dout, float* dtokens, float* pieces, int channels) {
  const int column = column_of_thread<width>();
  const std::int64_t segment = warp_of_grid();
  const std::int64_t begin = segment * sorted.segment_length;
  if (begin >= sorted.rows || column >= channels) return;
  const std::int64_t end = min(sorted.rows, begin + sorted.segment_length);
  float* const piece = pieces + segment * channels;
  Pack<width> sum = filled<width>(0.0f);
  std::int64_t token = sorted.tokens[begin];
  bool began_earlier = sorted.continues(begin);
  for (std::int64_t first = begin; first < end; first += rows_at_once) {
    Pack<width> loaded[rows_at_once];
#pragma unroll
    for (int i = 0; i < rows_at_once; ++i) {
      if (first + i < end) loaded[i] = load<width>(dout + sorted.order[first + i] * channels + column);
    }
#pragma unroll
    for (int i = 0; i < rows_at_once; ++i) {
      if (first + i >= end) break;
      if (sorted.tokens[first + i] != token) {
        finish_run(sum, token, began_earlier, piece, dtokens, channels, column);
        sum = filled<width>(0.0f);
        token = sorted.tokens[first + i];
        began_earlier = false;
      }
      add(sum, loaded[i]);
    }
  }
  finish_run(sum, token, began_earlier, piece, dtokens, channels, column);
}

// One warp per segment: where a run begins in it and goes on after it, adds the pieces of the segments that follow.
template <int width>
__global__ void __launch_bounds__(block_size)
    join_kernel(SortedRows sorted, const float* pieces, float* dtokens, int channels) {
  const int column = column_of_thread<width>();
  const std::int64_t segment = warp_of_grid();
  const std::int64_t begin = segment * sorted.segment_length;
  const std::int64_t end = begin + sorted.segment_length;
  if (end >= sorted.rows || column >= channels || !sorted.continues(end)) return;
  const std::int64_t token = sorted.tokens[end];
  if (sorted.tokens[begin] == token && sorted.continues(begin)) return;  // an earlier segment's
  Pack<width> sum = filled<width>(0.0f);
  bool goes_on = true;
  for (std::int64_t first = segment + 1; goes_on; first += rows_at_once) {
    Pack<width> loaded[rows_at_once];
#pragma unroll
    for (int i = 0; i < rows_at_once; ++i) {
      const std::int64_t start = (first + i) * sorted.segment_length;
      goes_on = start < sorted.rows && sorted.tokens[start] == token;
      loaded[i] = goes_on ? load<width>(pieces + (first + i) * channels + column) : filled<width>(0.0f);
    }
#pragma unroll
    for (int i = 0; i < rows_at_once; ++i) add(sum, loaded[i]);
  }
  finish_run(sum, token, false, nullptr, dtokens, channels, column);
}

template <int width>
dim3 grid_of(std::int64_t warps, std::int64_t channels) {
  return {blocks_for(warps, warps_per_block), blocks_for(channels, warp_size * width)};
}

template <typename Element>
void embedding_forward(const std::int64_t* tokens, const std::int64_t* positions, const Element* token_table,
                       const Element* position_table, Element* out, std::int64_t rows, std::int64_t time,
                       std::int64_t channels, Stream stream) {
  with_width<Element>(channels, aligned(token_table, position_table, out), [&](auto width) {
    launch("embedding_forward", forward_kernel<Element, width()>, grid_of<width()>(rows, channels), block_size, stream,
           tokens, positions, token_table, position_table, out, rows, time, static_cast<int>(channels));
  });
}

template <typename Element>
void embedding_backward(const std::int64_t* sorted_tokens, const std::int64_t* order, const Element* dout,
                        float* dtokens, float* dpositions, float* scratch, std::int64_t rows, std::int64_t time,
                        std::int64_t channels, Stream stream) {
  const SortedRows sorted = {sorted_tokens, order, rows, embedding_segment(rows)};
  const std::int64_t segments = divided_up(rows, sorted.segment_length);
  const auto columns = static_cast<int>(channels);
  with_width<Element>(channels, aligned(dout, dtokens, dpositions, scratch), [&](auto width) {
    if (dpositions != nullptr) {
      launch("embedding_backward of positions", position_kernel<Element, width()>, grid_of<width()>(time, channels),
             block_size, stream, dout, dpositions, rows, time, columns);
    }
    const dim3 grid = grid_of<width()>(segments, channels);
    launch("embedding_backward", segment_kernel<Element, width()>, grid, block_size, stream, sorted, dout, dtokens,
           scratch, columns);
    launch("embedding_backward of long runs", join_kernel<width()>, grid, block_size, stream, sorted, scratch, dtokens,
           columns);
  });
}

}  // namespace

template <typename Element>
void fill_embedding(CudaKernels<Element>& table) {
  table.embedding_forward = embedding_forward<Element>;
  table.embedding_backward = embedding_backward<Element>;
}
template void fill_embedding(CudaKernels<float>&);
template void fill_embedding(CudaKernels<BFloat16>&);

}  // namespace inkling::cuda
