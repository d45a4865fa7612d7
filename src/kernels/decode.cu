// A few rows times a matrix, where reading the matrix is all the work. Sums run in an order that does not depend on the
// number of rows, so that a row's bits are its own.
#include "kernels/activation_parts.h"
#include "kernels/cuda_tables.h"
#include "kernels/reductions.h"

namespace inkling::cuda {
namespace {

// Of weight [inner, columns] a block takes a tile: 32 bytes of every line, which is what memory is read by. So few
// columns make enough blocks to fill a GPU, and so many threads have the whole tile of a small model's matrix in
// flight.
constexpr int matrix_threads = 512;
constexpr int matrix_warps = matrix_threads / warp_size;
template <typename Element>
constexpr int tile_columns = 32 / static_cast<int>(sizeof(Element));

// Adds up what the lanes hold that are equal modulo `lanes`. Each gets one of the sums, that of element `place`: halves
// are exchanged until one element is left.
template <int lanes, int width>
__device__ inline float sum_over_groups(Pack<width> values, int& place) {
  place = 0;
  int count = width;
#pragma unroll
  for (int offset = warp_size / 2; offset >= lanes; offset /= 2) {
    if (count == 1) {
      values.at[0] += __shfl_xor_sync(0xffffffffu, values.at[0], offset);
      continue;
    }
    count /= 2;
    const bool upper = (lane_of_thread() & offset) != 0;
    if (upper) place += count;
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const float given = upper ? values.at[i] : values.at[count + i];
      const float kept = upper ? values.at[count + i] : values.at[i];
      values.at[i] = kept + __shfl_xor_sync(0xffffffffu, given, offset);
    }
  }
  return values.at[0];
}

// Tile blockIdx.x, rows blockIdx.y * held and on. The threads of a group take one line at a time, all groups a run of
// lines; then warps and the block add up what the groups have. The 1 of the bounds: else the compiler saves registers
// and has one load in flight.
template <typename Element, int width, int held, bool with_activation>
__global__ void __launch_bounds__(matrix_threads, 1)
    matrix_kernel(const Element* x, const Element* weight, const Element* bias, Element* out, Activation activation,
                  int rows, int inner, int columns) {
  constexpr int tile = tile_columns<Element>;
  constexpr int lanes = tile / width;
  constexpr int groups = matrix_threads / lanes;
  constexpr int at_once = held <= 2 ? 8 : 4;  // loads of the weight in flight per thread
  const int thread = static_cast<int>(threadIdx.x);
  const int first_column = static_cast<int>(blockIdx.x) * tile;
  const int first_row = static_cast<int>(blockIdx.y) * held;
  const int column = first_column + thread % lanes * width;
  const int end = column < columns ? inner : 0;
  Pack<width> sums[held];
#pragma unroll
  for (int row = 0; row < held; ++row) sums[row] = filled<width>(0.0f);
  for (int first = thread / lanes; first < end; first += at_once * groups) {
    Pack<width> lines[at_once];
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      const int k = first + i * groups;
      lines[i] = k < end ? load<width>(weight + static_cast<std::int64_t>(k) * columns + column) : filled<width>(0.0f);
    }
#pragma unroll
    for (int row = 0; row < held; ++row) {  // past the end: the last one again
      const Element* const factors = x + static_cast<std::int64_t>(min(first_row + row, rows - 1)) * inner;
#pragma unroll
      for (int i = 0; i < at_once; ++i) {
        const int k = first + i * groups;
        add_multiple(sums[row], k < end ? to_float(factors[k]) : 0.0f, lines[i]);
      }
    }
  }
  __shared__ float shared[held][matrix_warps][tile];
#pragma unroll
  for (int row = 0; row < held; ++row) {
    int place;
    const float sum = sum_over_groups<lanes>(sums[row], place);
    shared[row][thread / warp_size][thread % lanes * width + place] = sum;
  }
  __syncthreads();
  const int row = thread / tile;
  const int own_column = first_column + thread % tile;
  if (row >= held || first_row + row >= rows || own_column >= columns) return;
  float sum = bias == nullptr ? 0.0f : to_float(bias[own_column]);
#pragma unroll
  for (int warp = 0; warp < matrix_warps; ++warp) sum += shared[row][warp][thread % tile];
  if (with_activation) sum = activate(sum, activation).value;
  out[static_cast<std::int64_t>(first_row + row) * columns + own_column] = from_float<Element>(sum);
}

constexpr int lines_at_once = 4;  // loads of the weight in flight per thread

// A warp takes lines_at_once rows of weight [columns, inner]: out[r][j] is the product of row r of x and row j.
template <typename Element, int width, int held>
__global__ void __launch_bounds__(block_size)
    transposed_kernel(const Element* x, const Element* weight, float* out, int rows, int inner, int columns) {
  const int warp = static_cast<int>(threadIdx.x) / warp_size;
  const std::int64_t first = (static_cast<std::int64_t>(blockIdx.x) * warps_per_block + warp) * lines_at_once;
  const int first_row = static_cast<int>(blockIdx.z) * held;
  if (first >= columns) return;  // a whole warp
  float sums[held][lines_at_once] = {};
#pragma unroll 2
  for (int k = lane_of_thread() * width; k < inner; k += warp_size * width) {
    Pack<width> lines[lines_at_once];
#pragma unroll
    for (int i = 0; i < lines_at_once; ++i) {  // past the end: the last one again
      lines[i] = load<width>(weight + min(first + i, static_cast<std::int64_t>(columns) - 1) * inner + k);
    }
#pragma unroll
    for (int row = 0; row < held; ++row) {
      if (first_row + row >= rows) break;
      const Pack<width> factors = load<width>(x + static_cast<std::int64_t>(first_row + row) * inner + k);
#pragma unroll
      for (int i = 0; i < lines_at_once; ++i) sums[row][i] += dot(factors, lines[i]);
    }
  }
#pragma unroll
  for (int row = 0; row < held; ++row) {
    if (first_row + row >= rows) break;
#pragma unroll
    for (int i = 0; i < lines_at_once; ++i) {
      const float sum = warp_sum(sums[row][i]);
      if (lane_of_thread() == i && first + i < columns) {
        out[static_cast<std::int64_t>(first_row + row) * columns + first + i] = sum;
      }
    }
  }
}

// Calls function(held): how many rows of x one block takes.
template <typename Function>
void with_rows_held(std::int64_t rows, Function&& function) {
  if (rows == 1) return function(std::integral_constant<int, 1>{});
  if (rows == 2) return function(std::integral_constant<int, 2>{});
  if (rows <= 4) return function(std::integral_constant<int, 4>{});
  function(std::integral_constant<int, 8>{});
}

template <bool with_activation, typename Element>
void launch_matrix(const Element* x, const Element* weight, const Element* bias, Element* out, Activation activation,
                   std::int64_t rows, std::int64_t inner, std::int64_t columns, Stream stream) {
  with_width<Element>(columns, aligned(weight), [&](auto width) {
    with_rows_held(rows, [&](auto held) {
      const dim3 grid(blocks_for(columns, tile_columns<Element>), blocks_for(rows, held()));
      launch("rows_times_matrix", matrix_kernel<Element, width(), held(), with_activation>, grid, matrix_threads,
             stream, x, weight, bias, out, activation, static_cast<int>(rows), static_cast<int>(inner),
             static_cast<int>(columns));
    });
  });
}

template <typename Element>
void rows_times_matrix(const Element* x, const Element* weight, const Element* bias, Element* out, std::int64_t rows,
                       std::int64_t inner, std::int64_t columns, Stream stream) {
  launch_matrix<false>(x, weight, bias, out, Activation::gelu_tanh, rows, inner, columns, stream);
}

template <typename Element>
void rows_times_matrix_activated(const Element* x, const Element* weight, const Element* bias, Element* out,
                                 Activation activation, std::int64_t rows, std::int64_t inner, std::int64_t columns,
                                 Stream stream) {
  launch_matrix<true>(x, weight, bias, out, activation, rows, inner, columns, stream);
}

template <typename Element>
void rows_times_transposed(const Element* x, const Element* weight, float* out, std::int64_t rows, std::int64_t inner,
                           std::int64_t columns, Stream stream) {
  with_width<Element>(inner, aligned(x, weight), [&](auto width) {
    with_rows_held(rows, [&](auto held) {
      const dim3 grid(blocks_for(columns, warps_per_block * lines_at_once), 1, blocks_for(rows, held()));
      launch("rows_times_transposed", transposed_kernel<Element, width(), held()>, grid, block_size, stream, x, weight,
             out, static_cast<int>(rows), static_cast<int>(inner), static_cast<int>(columns));
    });
  });
}

}  // namespace

template <typename Element>
void fill_decode(CudaKernels<Element>& table) {
  table.rows_times_matrix = rows_times_matrix<Element>;
  table.rows_times_matrix_activated = rows_times_matrix_activated<Element>;
  table.rows_times_transposed = rows_times_transposed<Element>;
}
template void fill_decode(CudaKernels<float>&);
template void fill_decode(CudaKernels<BFloat16>&);

}  // namespace inkling::cuda
