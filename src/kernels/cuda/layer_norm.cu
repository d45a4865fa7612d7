// LayerNorm with the residual addition in front of it: one warp per row.
#include "kernels/cuda/column_sums.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda_kernels.h"

namespace inkling::cuda {
namespace {

constexpr int rows_per_block = block_size / warp_size;

__global__ void forward_kernel(const float* x, const float* branch, float* sum, float* out, float* mean, float* rstd,
                               const float* weight, const float* bias, std::int64_t rows, std::int64_t channels) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * rows_per_block + threadIdx.x / warp_size;
  const int lane = threadIdx.x % warp_size;
  if (row >= rows) return;  // a whole warp at a time
  const float* values = x + row * channels;
  float total = 0.0f;
  if (branch != nullptr) {
    float* const written = sum + row * channels;
    for (std::int64_t i = lane; i < channels; i += warp_size) {
      const float added = values[i] + branch[row * channels + i];
      written[i] = added;
      total += added;
    }
    values = written;  // each lane reads back only what it wrote
  } else {
    for (std::int64_t i = lane; i < channels; i += warp_size) total += values[i];
  }
  const float center = warp_sum(total) / static_cast<float>(channels);
  float squares = 0.0f;
  for (std::int64_t i = lane; i < channels; i += warp_size) {
    squares += (values[i] - center) * (values[i] - center);
  }
  const float scale = rsqrtf(warp_sum(squares) / static_cast<float>(channels) + 1e-5f);
  for (std::int64_t i = lane; i < channels; i += warp_size) {
    out[row * channels + i] = (values[i] - center) * scale * weight[i] + (bias == nullptr ? 0.0f : bias[i]);
  }
  if (lane == 0) {
    mean[row] = center;
    rstd[row] = scale;
  }
}

__global__ void backward_kernel(const float* dout, const float* dsum, const float* sum, const float* mean,
                                const float* rstd, const float* weight, float* dx, std::int64_t rows,
                                std::int64_t channels) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * rows_per_block + threadIdx.x / warp_size;
  const int lane = threadIdx.x % warp_size;
  if (row >= rows) return;
  const std::int64_t offset = row * channels;
  const float center = mean[row];
  const float scale = rstd[row];
  float mean_g = 0.0f;
  float mean_gn = 0.0f;
  for (std::int64_t i = lane; i < channels; i += warp_size) {
    const float g = dout[offset + i] * weight[i];
    mean_g += g;
    mean_gn += g * (sum[offset + i] - center) * scale;
  }
  mean_g = warp_sum(mean_g) / static_cast<float>(channels);
  mean_gn = warp_sum(mean_gn) / static_cast<float>(channels);
  for (std::int64_t i = lane; i < channels; i += warp_size) {
    const float normalized = (sum[offset + i] - center) * scale;
    const float residual = dsum == nullptr ? 0.0f : dsum[offset + i];
    dx[offset + i] = residual + scale * (dout[offset + i] * weight[i] - mean_g - normalized * mean_gn);
  }
}

// dout * normalized, whose column sums are the weight's gradient.
__global__ void weight_terms_kernel(const float* dout, const float* sum, const float* mean, const float* rstd,
                                    float* parts, std::int64_t rows, std::int64_t channels) {
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column >= channels) return;
  const RowRange part = rows_of_part(rows);
  float total = 0.0f;
  for (std::int64_t row = part.begin; row < part.end; ++row) {
    total += dout[row * channels + column] * (sum[row * channels + column] - mean[row]) * rstd[row];
  }
  parts[static_cast<std::int64_t>(blockIdx.y) * channels + column] = total;
}

}  // namespace

void layer_norm_forward(const float* x, const float* branch, float* sum, float* out, float* mean, float* rstd,
                        const float* weight, const float* bias, std::int64_t rows, std::int64_t channels,
                        Stream stream) {
  forward_kernel<<<blocks_for(rows, rows_per_block), block_size, 0, static_cast<cudaStream_t>(stream)>>>(
      x, branch, sum, out, mean, rstd, weight, bias, rows, channels);
  check_launch("layer_norm_forward");
}

void layer_norm_backward(const float* dout, const float* dsum, const float* sum, const float* mean, const float* rstd,
                         const float* weight, float* dx, float* dweight, float* dbias, float* scratch,
                         std::int64_t rows, std::int64_t channels, Stream stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  const dim3 grid(blocks_for(channels, block_size), column_parts);
  weight_terms_kernel<<<grid, block_size, 0, on>>>(dout, sum, mean, rstd, scratch, rows, channels);
  check_launch("layer_norm_backward");
  add_parts(scratch, dweight, channels, stream);
  if (dbias != nullptr) add_column_sums(dout, dbias, scratch + column_scratch(channels), rows, channels, stream);
  backward_kernel<<<blocks_for(rows, rows_per_block), block_size, 0, on>>>(dout, dsum, sum, mean, rstd, weight, dx,
                                                                           rows, channels);
  check_launch("layer_norm_backward");
}

}  // namespace inkling::cuda
