// A causal convolution of each channel for itself, with the input added: y_t = x_t + sum over k of weight[k] x_(t-k).
// Row n is position n % time of its text, or where it stands in its document; nothing stands before either.
#include "kernels/cuda_tables.h"
#include "kernels/reductions.h"

namespace inkling::cuda {
namespace {

struct ConvShape {
  std::int64_t rows, time;
  int channels, width;
  const std::int64_t* positions;  // [rows], or null: then row n is at n % time

  __device__ std::int64_t position(std::int64_t row) const {
    return positions == nullptr ? row % time : positions[row];
  }
  // Whether the k-th row behind this one belongs to the same document.
  __device__ bool reaches(std::int64_t row, std::int64_t k) const { return row + k < rows && position(row + k) >= k; }
};

__device__ inline std::int64_t least(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

// to += weight * from
template <int width>
__device__ inline void add_product(const Pack<width>& weight, const Pack<width>& from, Pack<width>& to) {
#pragma unroll
  for (int i = 0; i < width; ++i) to.at[i] += weight.at[i] * from.at[i];
}

// A thread takes a pack of a row, and reads the rows before it, or for the backward pass (step 1) those behind it.
template <typename Element, int width>
__global__ void __launch_bounds__(block_size)
    conv_kernel(const Element* x, const Element* weight, Element* out, ConvShape shape, int step) {
  const std::int64_t packs = shape.channels / width;
  const std::int64_t pack = static_cast<std::int64_t>(blockIdx.x) * block_size + threadIdx.x;
  if (pack >= shape.rows * packs) return;
  const std::int64_t row = pack / packs, column = pack % packs * width;
  const std::int64_t seen = step < 0 ? least(shape.position(row) + 1, shape.width) : shape.width;
  const Element* const values = x + row * shape.channels + column;
  Pack<width> sum = load<width>(values);
  for (std::int64_t k = 0; k < seen; ++k) {
    if (step > 0 && !shape.reaches(row, k)) break;
    add_product(load<width>(weight + k * shape.channels + column), load<width>(values + k * step * shape.channels),
                sum);
  }
  store(out + row * shape.channels + column, sum);
}

// Block (b, tile, k) of G along x takes rows b, b + G, … and leaves its sums of dout_t x_(t-k) in parts[b][k].
template <typename Element>
__global__ void __launch_bounds__(block_size)
    conv_weight_kernel(const Element* dout, const Element* x, float* parts, ConvShape shape) {
  const int channel = static_cast<int>(blockIdx.y) * block_size + static_cast<int>(threadIdx.x);
  if (channel >= shape.channels) return;
  const std::int64_t k = static_cast<std::int64_t>(blockIdx.z);
  float sum = 0.0f;
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x); row < shape.rows; row += gridDim.x) {
    if (shape.position(row) < k) continue;
    const std::int64_t place = row * shape.channels + channel;
    sum += to_float(dout[place]) * to_float(x[place - k * shape.channels]);
  }
  parts[(static_cast<std::int64_t>(blockIdx.x) * shape.width + k) * shape.channels + channel] = sum;
}

// A thread takes a channel of a text, whose last inputs lie in a ring: position p at p % width.
template <typename Element>
__global__ void __launch_bounds__(block_size)
    conv_cached_kernel(const Element* x, Element* inputs, const Element* weight, const std::int64_t* lengths,
                       Element* out, ConvShape shape) {
  const std::int64_t place = static_cast<std::int64_t>(blockIdx.x) * block_size + threadIdx.x;
  if (place >= shape.rows * shape.channels) return;
  const std::int64_t row = place / shape.channels, channel = place % shape.channels, position = lengths[row];
  Element* const ring = inputs + row * shape.width * shape.channels + channel;
  ring[position % shape.width * shape.channels] = x[place];
  float sum = to_float(x[place]);
  for (std::int64_t k = 0; k < least(position + 1, shape.width); ++k) {
    sum +=
        to_float(weight[k * shape.channels + channel]) * to_float(ring[(position - k) % shape.width * shape.channels]);
  }
  out[place] = from_float<Element>(sum);
}

ConvShape shape_of(std::int64_t rows, std::int64_t time, std::int64_t channels, std::int64_t width,
                   const std::int64_t* positions) {
  return {rows, time, static_cast<int>(channels), static_cast<int>(width), positions};
}

template <typename Element>
void queue(const char* name, const Element* x, const Element* weight, Element* out, const ConvShape& shape, int step,
           Stream stream) {
  with_width<Element>(shape.channels, aligned(x, weight, out), [&](auto width) {
    launch(name, conv_kernel<Element, width()>, blocks_for(shape.rows * (shape.channels / width()), block_size),
           block_size, stream, x, weight, out, shape, step);
  });
}

template <typename Element>
void conv_forward(const Element* x, const Element* weight, const std::int64_t* positions, Element* out,
                  std::int64_t rows, std::int64_t time, std::int64_t channels, std::int64_t width, Stream stream) {
  queue("conv_forward", x, weight, out, shape_of(rows, time, channels, width, positions), -1, stream);
}

template <typename Element>
void conv_backward(const Element* dout, const Element* x, const Element* weight, const std::int64_t* positions,
                   Element* dx, float* dweight, float* scratch, std::int64_t rows, std::int64_t time,
                   std::int64_t channels, std::int64_t width, Stream stream) {
  const ConvShape shape = shape_of(rows, time, channels, width, positions);
  queue("conv_backward", dout, weight, dx, shape, 1, stream);
  const auto parts = static_cast<unsigned>(std::min<std::int64_t>(column_parts, rows));
  const dim3 grid(parts, blocks_for(channels, block_size), static_cast<unsigned>(width));
  launch("conv_weight", conv_weight_kernel<Element>, grid, block_size, stream, dout, x, scratch, shape);
  add_parts(scratch, parts, dweight, nullptr, width * channels, stream);
}

template <typename Element>
void conv_cached(const Element* x, Element* inputs, const Element* weight, const std::int64_t* lengths, Element* out,
                 std::int64_t batch, std::int64_t channels, std::int64_t width, Stream stream) {
  launch("conv_cached", conv_cached_kernel<Element>, blocks_for(batch * channels, block_size), block_size, stream, x,
         inputs, weight, lengths, out, shape_of(batch, 1, channels, width, nullptr));
}

}  // namespace

template <typename Element>
void fill_conv(CudaKernels<Element>& table) {
  table.conv_forward = conv_forward<Element>;
  table.conv_backward = conv_backward<Element>;
  table.conv_cached = conv_cached<Element>;
}
template void fill_conv(CudaKernels<float>&);
template void fill_conv(CudaKernels<BFloat16>&);

}  // namespace inkling::cuda
