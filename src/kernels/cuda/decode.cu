// A few rows times a matrix, where reading the matrix is all the work. Sums run in an order that does not depend on the
// number of rows, so that a row's bits are its own.
#include "kernels/cuda/column_sums.h"
#include "kernels/cuda/reductions.h"
#include "kernels/cuda/tables.h"

namespace inkling::cuda {
namespace {

constexpr int lines_at_once = 4;  // loads of the weight in flight per thread

// Rows blockIdx.z * held and on, columns of tile blockIdx.y, lines of split blockIdx.x: parts[split][row][column] gets
// the sum over `share` lines of weight [inner, columns].
template <typename Element, int width, int held>
__global__ void __launch_bounds__(block_size)
    matrix_kernel(const Element* x, const Element* weight, float* parts, int rows, int inner, int columns, int share) {
  const int column = (static_cast<int>(blockIdx.y) * warp_size + lane_of_thread()) * width;
  const int warp = static_cast<int>(threadIdx.x) / warp_size;
  const int first_row = static_cast<int>(blockIdx.z) * held;
  const int begin = static_cast<int>(blockIdx.x) * share;
  const int end = column < columns ? min(inner, begin + share) : begin;
  Pack<width> sums[held];
#pragma unroll
  for (int row = 0; row < held; ++row) sums[row] = filled<width>(0.0f);
  for (int k = begin + warp * lines_at_once; k < end; k += warps_per_block * lines_at_once) {
    Pack<width> lines[lines_at_once];
#pragma unroll
    for (int i = 0; i < lines_at_once; ++i) {
      if (k + i < end) lines[i] = load<width>(weight + static_cast<std::int64_t>(k + i) * columns + column);
    }
#pragma unroll
    for (int row = 0; row < held; ++row) {
      if (first_row + row >= rows) break;
      const Element* const factors = x + static_cast<std::int64_t>(first_row + row) * inner + k;
#pragma unroll
      for (int i = 0; i < lines_at_once; ++i) {
        if (k + i < end) add_multiple(sums[row], to_float(factors[i]), lines[i]);
      }
    }
  }
  __shared__ float shared[held * width * warp_size];
  sum_over_warps(sums, shared, warp, warps_per_block);
  if (warp < warps_per_block - 1 || column >= columns) return;
#pragma unroll
  for (int row = 0; row < held; ++row) {
    if (first_row + row >= rows) break;
    store(parts + (static_cast<std::int64_t>(blockIdx.x) * rows + first_row + row) * columns + column, sums[row]);
  }
}

// out[i] = bias[i % columns] + the sum of parts [count, n] at i.
template <typename Element>
__global__ void __launch_bounds__(block_size)
    finish_kernel(const float* parts, int count, const Element* bias, Element* out, std::int64_t n, int columns) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * warp_size + lane_of_thread();
  const float sum = sum_of_parts(parts, count, n, i);
  if (!has_sum_of_parts() || i >= n) return;
  out[i] = from_float<Element>(bias == nullptr ? sum : sum + to_float(bias[i % columns]));
}

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

template <typename Element>
void rows_times_matrix(const Element* x, const Element* weight, const Element* bias, Element* out, float* scratch,
                       std::int64_t rows, std::int64_t inner, std::int64_t columns, Stream stream) {
  constexpr std::int64_t lines_of_block = warps_per_block * lines_at_once;
  const std::int64_t wanted = divided_up(inner, matrix_splits(inner, columns));
  const std::int64_t share = divided_up(wanted, lines_of_block) * lines_of_block;
  const unsigned splits = blocks_for(inner, share);
  with_width<Element>(columns, aligned(weight, scratch), [&](auto width) {
    with_rows_held(rows, [&](auto held) {
      const dim3 grid(splits, blocks_for(columns, warp_size * width()), blocks_for(rows, held()));
      launch("rows_times_matrix", matrix_kernel<Element, width(), held()>, grid, block_size, stream, x, weight, scratch,
             static_cast<int>(rows), static_cast<int>(inner), static_cast<int>(columns), static_cast<int>(share));
    });
  });
  launch("rows_times_matrix", finish_kernel<Element>, blocks_for(rows * columns, warp_size), block_size, stream,
         scratch, static_cast<int>(splits), bias, out, rows * columns, static_cast<int>(columns));
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
  table.rows_times_transposed = rows_times_transposed<Element>;
}
template void fill_decode(CudaKernels<float>&);
template void fill_decode(CudaKernels<BFloat16>&);

}  // namespace inkling::cuda
