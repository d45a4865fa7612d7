// GELU, dropout and AdamW: one thread per element.
#include "base/random.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda_kernels.h"

namespace inkling::cuda {
namespace {

struct GeluParts {
  float value, derivative;
};

__device__ GeluParts gelu(float x, GeluForm form) {
  if (form == GeluForm::tanh) {
    const float u2 = 1.5957691216057308f * (x + 0.044715f * x * x * x);
    const float logistic = 1.0f / (1.0f + expf(-u2));
    const float du2 = 1.5957691216057308f * (1.0f + 3.0f * 0.044715f * x * x);
    return {x * logistic, logistic + x * logistic * (1.0f - logistic) * du2};
  }
  const float cumulative = normcdff(x);
  return {x * cumulative, cumulative + x * expf(-0.5f * x * x) * 0.3989422804014327f};
}

__global__ void gelu_forward_kernel(float* pre, const float* bias, float* out, GeluForm form, std::int64_t n,
                                    std::int64_t channels) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float in = pre[i] + (bias == nullptr ? 0.0f : bias[i % channels]);
  pre[i] = in;
  out[i] = gelu(in, form).value;
}

__global__ void gelu_backward_kernel(const float* dout, const float* pre, float* dpre, GeluForm form, std::int64_t n) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) dpre[i] = dout[i] * gelu(pre[i], form).derivative;
}

// mix64 and random_bits of base/random.h, for the device.
__device__ std::uint64_t bits_at(std::uint64_t key, std::uint64_t index) {
  std::uint64_t x = key + (index + 1) * 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

__global__ void dropout_kernel(float* x, std::uint64_t key, std::uint64_t first, std::uint32_t threshold, float scale,
                               std::int64_t n) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const auto bits = static_cast<std::uint32_t>(bits_at(key, first + static_cast<std::uint64_t>(i)) >> 32);
  x[i] = bits >= threshold ? x[i] * scale : 0.0f;
}

__global__ void adamw_kernel(float* value, const float* gradient, float* moment1, float* moment2,
                             AdamWSettings settings, std::int64_t n) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float g = gradient[i] * settings.clip;
  const float m = settings.beta1 * moment1[i] + (1.0f - settings.beta1) * g;
  const float v = settings.beta2 * moment2[i] + (1.0f - settings.beta2) * g * g;
  moment1[i] = m;
  moment2[i] = v;
  const float denominator = sqrtf(v) * rsqrtf(settings.bias_correction2) + settings.epsilon;
  value[i] = value[i] * (1.0f - settings.learning_rate * settings.weight_decay) -
             settings.learning_rate / settings.bias_correction1 * m / denominator;
}

}  // namespace

void gelu_forward(float* pre, const float* bias, float* out, GeluForm form, std::int64_t rows, std::int64_t channels,
                  Stream stream) {
  const std::int64_t n = rows * channels;
  gelu_forward_kernel<<<blocks_for(n, block_size), block_size, 0, static_cast<cudaStream_t>(stream)>>>(
      pre, bias, out, form, n, channels);
  check_launch("gelu_forward");
}

void gelu_backward(const float* dout, const float* pre, float* dpre, float* dbias, float* scratch, GeluForm form,
                   std::int64_t rows, std::int64_t channels, Stream stream) {
  const std::int64_t n = rows * channels;
  gelu_backward_kernel<<<blocks_for(n, block_size), block_size, 0, static_cast<cudaStream_t>(stream)>>>(dout, pre, dpre,
                                                                                                        form, n);
  check_launch("gelu_backward");
  if (dbias != nullptr) add_column_sums(dpre, dbias, scratch, rows, channels, stream);
}

void dropout(float* x, std::uint64_t key, std::uint64_t first, std::uint32_t threshold, float scale, std::int64_t n,
             Stream stream) {
  dropout_kernel<<<blocks_for(n, block_size), block_size, 0, static_cast<cudaStream_t>(stream)>>>(x, key, first,
                                                                                                  threshold, scale, n);
  check_launch("dropout");
}

void adamw(float* value, const float* gradient, float* moment1, float* moment2, const AdamWSettings& settings,
           std::int64_t n, Stream stream) {
  adamw_kernel<<<blocks_for(n, block_size), block_size, 0, static_cast<cudaStream_t>(stream)>>>(
      value, gradient, moment1, moment2, settings, n);
  check_launch("adamw");
}

}  // namespace inkling::cuda
