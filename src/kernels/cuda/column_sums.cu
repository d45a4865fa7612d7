#include "kernels/cuda/column_sums.h"

#include "kernels/cuda/launch.h"

namespace inkling::cuda {
namespace {

__global__ void part_sums_kernel(const float* x, float* parts, std::int64_t rows, std::int64_t channels) {
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column >= channels) return;
  const RowRange part = rows_of_part(rows);
  float total = 0.0f;
  for (std::int64_t row = part.begin; row < part.end; ++row) total += x[row * channels + column];
  parts[static_cast<std::int64_t>(blockIdx.y) * channels + column] = total;
}

__global__ void add_parts_kernel(const float* parts, float* sums, std::int64_t channels) {
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column >= channels) return;
  float total = 0.0f;
  for (int part = 0; part < column_parts; ++part) total += parts[part * channels + column];
  sums[column] += total;
}

}  // namespace

std::int64_t column_scratch(std::int64_t channels) { return column_parts * channels; }

void add_parts(const float* parts, float* sums, std::int64_t channels, Stream stream) {
  add_parts_kernel<<<blocks_for(channels, block_size), block_size, 0, static_cast<cudaStream_t>(stream)>>>(parts, sums,
                                                                                                           channels);
  check_launch("add_parts");
}

void add_column_sums(const float* x, float* sums, float* scratch, std::int64_t rows, std::int64_t channels,
                     Stream stream) {
  const dim3 grid(blocks_for(channels, block_size), column_parts);
  part_sums_kernel<<<grid, block_size, 0, static_cast<cudaStream_t>(stream)>>>(x, scratch, rows, channels);
  check_launch("add_column_sums");
  add_parts(scratch, sums, channels, stream);
}

}  // namespace inkling::cuda
