// Softmax, cross-entropy and its gradient in place: one warp per row.
#include "kernels/cuda/launch.h"
#include "kernels/cuda_kernels.h"

namespace inkling::cuda {
namespace {

constexpr int rows_per_block = block_size / warp_size;

__global__ void cross_entropy_kernel(float* logits, const std::int64_t* targets, float* losses, float scale,
                                     std::int64_t rows, std::int64_t vocabulary) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * rows_per_block + threadIdx.x / warp_size;
  const int lane = threadIdx.x % warp_size;
  if (row >= rows) return;  // a whole warp at a time
  float* const values = logits + row * vocabulary;
  const std::int64_t target = targets[row];
  if (target < 0) {
    for (std::int64_t i = lane; i < vocabulary; i += warp_size) values[i] = 0.0f;
    if (lane == 0) losses[row] = 0.0f;
    return;
  }
  float largest = -INFINITY;
  for (std::int64_t i = lane; i < vocabulary; i += warp_size) largest = fmaxf(largest, values[i]);
  largest = warp_max(largest);
  const float target_logit = values[target];
  float total = 0.0f;
  for (std::int64_t i = lane; i < vocabulary; i += warp_size) total += expf(values[i] - largest);
  total = warp_sum(total);
  __syncwarp();  // the target's logit has been read by every lane
  for (std::int64_t i = lane; i < vocabulary; i += warp_size) {
    values[i] = (expf(values[i] - largest) / total - (i == target ? 1.0f : 0.0f)) * scale;
  }
  if (lane == 0) losses[row] = logf(total) + largest - target_logit;
}

}  // namespace

void cross_entropy(float* logits, const std::int64_t* targets, float* losses, float scale, std::int64_t rows,
                   std::int64_t vocabulary, Stream stream) {
  cross_entropy_kernel<<<blocks_for(rows, rows_per_block), block_size, 0, static_cast<cudaStream_t>(stream)>>>(
      logits, targets, losses, scale, rows, vocabulary);
  check_launch("cross_entropy");
}

}  // namespace inkling::cuda
