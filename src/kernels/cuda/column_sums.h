// Sums over rows in two steps without atomics: parts of the rows first, then the parts in order.
#pragma once

#include <cstdint>

#include "kernels/cuda_kernels.h"

namespace inkling::cuda {

constexpr int column_parts = 64;

struct RowRange {
  std::int64_t begin, end;
};

// The rows that this block sums, in a grid of column_parts blocks along y.
__device__ inline RowRange rows_of_part(std::int64_t rows) {
  const std::int64_t length = (rows + gridDim.y - 1) / gridDim.y;
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.y) * length;
  return {begin, begin + length < rows ? begin + length : rows};
}

// Adds parts [column_parts, channels] to sums [channels], first part first.
void add_parts(const float* parts, float* sums, std::int64_t channels, Stream stream);

}  // namespace inkling::cuda
