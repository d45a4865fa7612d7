// The activations of the MLP with their bias, and sums over rows. A block takes a tile of 32 packs by some rows: each
// warp reads neighbouring packs of a row, and a thread keeps to its columns.
#include "kernels/activation_parts.h"
#include "kernels/cuda_tables.h"
#include "kernels/reductions.h"

namespace inkling::cuda {
namespace {

constexpr int rows_at_once = 4;  // loads in flight per thread

// blockIdx.x: rows_at_once rows for each warp; blockIdx.y: the tile of columns.
template <typename Element, int width>
__global__ void __launch_bounds__(block_size)
    activation_forward_kernel(Element* pre, const Element* bias, Element* out, Activation activation, std::int64_t rows,
                              int channels) {
  const int column = (static_cast<int>(blockIdx.y) * warp_size + lane_of_thread()) * width;
  if (column >= channels) return;
  const std::int64_t warp = static_cast<std::int64_t>(blockIdx.x) * warps_per_block + threadIdx.x / warp_size;
  const Pack<width> shift = bias == nullptr ? filled<width>(0.0f) : load<width>(bias + column);
  Pack<width> values[rows_at_once];
#pragma unroll
  for (int i = 0; i < rows_at_once; ++i) {
    const std::int64_t row = warp * rows_at_once + i;
    if (row < rows) values[i] = load<width>(pre + row * channels + column);
  }
#pragma unroll
  for (int i = 0; i < rows_at_once; ++i) {
    const std::int64_t row = warp * rows_at_once + i;
    if (row >= rows) break;
    add(values[i], shift);
    if (bias != nullptr) store(pre + row * channels + column, values[i]);
    // Of the value as it is stored, which is what the backward pass will see.
    for (int j = 0; j < width; ++j) values[i].at[j] = activate(rounded<Element>(values[i].at[j]), activation).value;
    store(out + row * channels + column, values[i]);
  }
}

// For the rows of this block, adds up term(load_row(place), place) with place = row * C + column:
// parts[blockIdx.x][column] gets the sums (parts may be null). Block b of G along x takes groups of rows b, b + G, …; a
// group is rows_at_once rows for each warp.
template <int width, typename Loaded, typename Load, typename Term>
__device__ inline void sum_terms(float* parts, std::int64_t rows, int channels, Load load_row, Term term) {
  const int column = (static_cast<int>(blockIdx.y) * warp_size + lane_of_thread()) * width;
  const int warp = static_cast<int>(threadIdx.x) / warp_size;
  Pack<width> sums[1] = {filled<width>(0.0f)};
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * warps_per_block * rows_at_once;
  std::int64_t first = (static_cast<std::int64_t>(blockIdx.x) * warps_per_block + warp) * rows_at_once;
  for (; first < rows && column < channels; first += stride) {
    Loaded loaded[rows_at_once];
#pragma unroll
    for (int i = 0; i < rows_at_once; ++i) {
      if (first + i < rows) loaded[i] = load_row((first + i) * channels + column);
    }
#pragma unroll
    for (int i = 0; i < rows_at_once; ++i) {
      if (first + i < rows) add(sums[0], term(loaded[i], (first + i) * channels + column));
    }
  }
  if (parts == nullptr) return;
  __shared__ float shared[width * warp_size];
  sum_over_warps(sums, shared, warp, warps_per_block);
  if (warp == warps_per_block - 1 && column < channels) {
    store(parts + static_cast<std::int64_t>(blockIdx.x) * channels + column, sums[0]);
  }
}

template <int width>
struct ActivationInput {
  Pack<width> dout, pre;
};

template <typename Element, int width>
__global__ void __launch_bounds__(block_size)
    activation_backward_kernel(const Element* dout, const Element* pre, Element* dpre, float* parts,
                               Activation activation, std::int64_t rows, int channels) {
  sum_terms<width, ActivationInput<width>>(
      parts, rows, channels,
      [=](std::int64_t place) { return ActivationInput<width>{load<width>(dout + place), load<width>(pre + place)}; },
      [=](const ActivationInput<width>& in, std::int64_t place) {
        Pack<width> result;
        for (int j = 0; j < width; ++j) result.at[j] = in.dout.at[j] * activate(in.pre.at[j], activation).derivative;
        store(dpre + place, result);
        return result;
      });
}

// pre, bias: gates and values, [rows, 2 channels]. A thread keeps to its columns of either.
template <typename Element, int width>
__global__ void __launch_bounds__(block_size)
    gated_forward_kernel(Element* pre, const Element* bias, Element* out, Activation activation, std::int64_t rows,
                         int channels) {
  const int column = (static_cast<int>(blockIdx.y) * warp_size + lane_of_thread()) * width;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * warps_per_block + threadIdx.x / warp_size;
  if (column >= channels || row >= rows) return;
  Element* const gates = pre + row * 2 * channels + column;
  Pack<width> gate = load<width>(gates), value = load<width>(gates + channels);
  if (bias != nullptr) {
    add(gate, load<width>(bias + column));
    add(value, load<width>(bias + channels + column));
    store(gates, gate);
    store(gates + channels, value);
  }
  Pack<width> result;
  for (int j = 0; j < width; ++j) {
    result.at[j] = activate(rounded<Element>(gate.at[j]), activation).value * rounded<Element>(value.at[j]);
  }
  store(out + row * channels + column, result);
}

template <typename Element, int width>
__global__ void __launch_bounds__(block_size)
    gated_backward_kernel(const Element* dout, const Element* pre, Element* dpre, Activation activation,
                          std::int64_t rows, int channels) {
  const int column = (static_cast<int>(blockIdx.y) * warp_size + lane_of_thread()) * width;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * warps_per_block + threadIdx.x / warp_size;
  if (column >= channels || row >= rows) return;
  const std::int64_t place = row * 2 * channels + column;
  const Pack<width> upstream = load<width>(dout + row * channels + column);
  Pack<width> gate = load<width>(pre + place), value = load<width>(pre + place + channels);
  for (int j = 0; j < width; ++j) {
    const ActivationParts parts = activate(gate.at[j], activation);
    gate.at[j] = upstream.at[j] * value.at[j] * parts.derivative;
    value.at[j] = upstream.at[j] * parts.value;
  }
  store(dpre + place, gate);
  store(dpre + place + channels, value);
}

template <typename Element, int width>
__global__ void __launch_bounds__(block_size)
    column_sums_kernel(const Element* x, float* parts, std::int64_t rows, int channels) {
  sum_terms<width, Pack<width>>(
      parts, rows, channels, [=](std::int64_t place) { return load<width>(x + place); },
      [=](const Pack<width>& in, std::int64_t) { return in; });
}

__global__ void __launch_bounds__(block_size)
    add_parts_kernel(const float* parts, int count, float* sums, float* more_sums, int channels) {
  const int column = static_cast<int>(blockIdx.x) * warp_size + lane_of_thread();
  const std::int64_t skipped = static_cast<std::int64_t>(blockIdx.y) * count * channels;
  const float sum = sum_of_parts(parts + skipped, count, channels, column);
  if (has_sum_of_parts() && column < channels) (blockIdx.y == 0 ? sums : more_sums)[column] += sum;
}

// A grid whose blocks along x share the rows: enough blocks to fill a GPU, as few parts as that allows.
dim3 grid_of_sums(std::int64_t rows, std::int64_t channels, int width) {
  constexpr std::int64_t wanted_blocks = 1024;
  const std::int64_t tiles = divided_up(channels, warp_size * width);
  const std::int64_t groups = divided_up(rows, warps_per_block * rows_at_once);
  const std::int64_t parts = std::min({divided_up(wanted_blocks, tiles), groups, column_parts});
  return {static_cast<unsigned>(parts), static_cast<unsigned>(tiles)};
}

// A warp for each row and 32 packs.
dim3 grid_of_rows(std::int64_t rows, std::int64_t channels, int width) {
  return {blocks_for(rows, warps_per_block), blocks_for(channels, warp_size * width)};
}

template <typename Element>
void activation_forward(Element* pre, const Element* bias, Element* out, Activation activation, std::int64_t rows,
                        std::int64_t channels, Stream stream) {
  with_width<Element>(channels, aligned(pre, bias, out), [&](auto width) {
    if (is_gated(activation)) {
      launch("activation_forward", gated_forward_kernel<Element, width()>, grid_of_rows(rows, channels, width()),
             block_size, stream, pre, bias, out, activation, rows, static_cast<int>(channels));
      return;
    }
    const dim3 grid(blocks_for(rows, warps_per_block * rows_at_once), blocks_for(channels, warp_size * width()));
    launch("activation_forward", activation_forward_kernel<Element, width()>, grid, block_size, stream, pre, bias, out,
           activation, rows, static_cast<int>(channels));
  });
}

template <typename Element>
void add_column_sums(const Element* x, float* sums, float* scratch, std::int64_t rows, std::int64_t channels,
                     Stream stream) {
  with_width<Element>(channels, aligned(x, scratch), [&](auto width) {
    const dim3 grid = grid_of_sums(rows, channels, width());
    launch("add_column_sums", column_sums_kernel<Element, width()>, grid, block_size, stream, x, scratch, rows,
           static_cast<int>(channels));
    add_parts(scratch, grid.x, sums, nullptr, channels, stream);
  });
}

template <typename Element>
void activation_backward(const Element* dout, const Element* pre, Element* dpre, float* dbias, float* scratch,
                         Activation activation, std::int64_t rows, std::int64_t channels, Stream stream) {
  if (is_gated(activation)) {
    with_width<Element>(channels, aligned(dout, pre, dpre), [&](auto width) {
      launch("activation_backward", gated_backward_kernel<Element, width()>, grid_of_rows(rows, channels, width()),
             block_size, stream, dout, pre, dpre, activation, rows, static_cast<int>(channels));
    });
    if (dbias != nullptr) add_column_sums(dpre, dbias, scratch, rows, 2 * channels, stream);
    return;
  }
  float* const parts = dbias == nullptr ? nullptr : scratch;
  with_width<Element>(channels, aligned(dout, pre, dpre, parts), [&](auto width) {
    const dim3 grid = grid_of_sums(rows, channels, width());
    launch("activation_backward", activation_backward_kernel<Element, width()>, grid, block_size, stream, dout, pre,
           dpre, parts, activation, rows, static_cast<int>(channels));
    if (dbias != nullptr) add_parts(parts, grid.x, dbias, nullptr, channels, stream);
  });
}

}  // namespace

void add_parts(const float* parts, std::int64_t count, float* sums, float* more_sums, std::int64_t channels,
               Stream stream) {
  launch("add_parts", add_parts_kernel, dim3(blocks_for(channels, warp_size), more_sums == nullptr ? 1 : 2), block_size,
         stream, parts, static_cast<int>(count), sums, more_sums, static_cast<int>(channels));
}

template <typename Element>
void fill_activation(CudaKernels<Element>& table) {
  table.activation_forward = activation_forward<Element>;
  table.activation_backward = activation_backward<Element>;
  table.add_column_sums = add_column_sums<Element>;
}
template void fill_activation(CudaKernels<float>&);
template void fill_activation(CudaKernels<BFloat16>&);

}  // namespace inkling::cuda
