// What works on flat memory: dropout, the sum of squares, AdamW, what is elementwise of Muon.
#include "kernels/cuda_elements.h"
#include "kernels/cuda_tables.h"
#include "kernels/reductions.h"

namespace inkling::cuda {
namespace {

__device__ inline std::int64_t thread_of_grid() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

// One pack per thread; the last one may be short.
template <typename Element, int width>
__global__ void __launch_bounds__(block_size)
    dropout_kernel(const Element* x, Element* out, const std::uint64_t* key, std::uint64_t site,
                   std::uint32_t threshold, float scale, std::int64_t n, std::int64_t per_row) {
  const std::int64_t first = thread_of_grid() * width;
  if (first >= n) return;
  // Number i of a stream is a function of its key plus i times golden_gamma.
  const std::uint64_t before = key[1] * static_cast<std::uint64_t>(per_row);
  const std::uint64_t stream_key = mixed(key[0] + site * golden_gamma) + before * golden_gamma;
  const auto result = [&](float value, std::int64_t i) {
    const std::uint64_t bits = random_bits_at(stream_key, static_cast<std::uint64_t>(i));
    return static_cast<std::uint32_t>(bits >> 32) >= threshold ? value * scale : 0.0f;
  };
  if (first + width <= n) {
    Pack<width> values = load<width>(x + first);
    for (int i = 0; i < width; ++i) values.at[i] = result(values.at[i], first + i);
    store(out + first, values);
  } else {
    for (std::int64_t i = first; i < n; ++i) out[i] = from_float<Element>(result(to_float(x[i]), i));
  }
}

template <int width>
__device__ inline float square(const Pack<width>& values) {
  float sum = 0.0f;
  for (int i = 0; i < width; ++i) sum += values.at[i] * values.at[i];
  return sum;
}

// A thread sums every G-th pack in float32, where that is a small share of n; what threads and blocks sum is double.
template <int width>
__global__ void __launch_bounds__(block_size) square_parts_kernel(const float* x, double* parts, std::int64_t n) {
  constexpr int at_once = 4;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * block_size * width;
  float sums[at_once] = {};
  for (std::int64_t first = thread_of_grid() * width; first < n; first += at_once * stride) {
#pragma unroll
    for (int k = 0; k < at_once; ++k) {
      const std::int64_t i = first + k * stride;
      if (i + width <= n) {
        sums[k] += square(load<width>(x + i));
      } else {
        for (std::int64_t j = i; j < n; ++j) sums[k] += x[j] * x[j];
      }
    }
  }
  double total = warp_sum((static_cast<double>(sums[0]) + static_cast<double>(sums[1])) +
                          (static_cast<double>(sums[2]) + static_cast<double>(sums[3])));
  __shared__ double shared[warps_per_block];
  if (lane_of_thread() == 0) shared[threadIdx.x / warp_size] = total;
  __syncthreads();
  if (threadIdx.x != 0) return;
  total = 0.0;
  for (int warp = 0; warp < warps_per_block; ++warp) total += shared[warp];
  parts[blockIdx.x] = total;
}

// One warp.
__global__ void sum_squares_kernel(const double* parts, int count, float* out) {
  double total = 0.0;
  for (int i = lane_of_thread(); i < count; i += warp_size) total += parts[i];
  total = warp_sum(total);
  if (threadIdx.x == 0) *out = static_cast<float>(total);
}

// The factor that clips the gradient; NaN if the norm is not finite.
__device__ inline float clip_factor(float norm_squared, float max_norm) {
  if (!(norm_squared < INFINITY)) return NAN;
  const float norm = sqrtf(norm_squared);
  return max_norm > 0.0f && norm > max_norm ? max_norm / (norm + 1e-6f) : 1.0f;
}

// Loshchilov, Hutter 2019, equation 12.
template <int width, typename Element>
__device__ inline void adamw_pack(float* value, const float* gradient, float* moment1, float* moment2, Element* compute,
                                  const AdamWStep& step, float clip) {
  const float decay = 1.0f - step.learning_rate * step.weight_decay;
  const float rate = step.learning_rate / step.bias_correction1;
  const float root_correction = rsqrtf(step.bias_correction2);
  Pack<width> values = load<width>(value), m = load<width>(moment1), v = load<width>(moment2);
  const Pack<width> gradients = load<width>(gradient);
  for (int i = 0; i < width; ++i) {
    const float g = gradients.at[i] * clip;
    m.at[i] = step.beta1 * m.at[i] + (1.0f - step.beta1) * g;
    v.at[i] = step.beta2 * v.at[i] + (1.0f - step.beta2) * g * g;
    values.at[i] = values.at[i] * decay - rate * m.at[i] / (sqrtf(v.at[i]) * root_correction + step.epsilon);
  }
  store(moment1, m);
  store(moment2, v);
  store(value, values);
  if (compute != nullptr) store(compute, values);
}

// One pack per thread; the last one may be short.
template <typename Element, int width>
__global__ void __launch_bounds__(block_size)
    adamw_kernel(float* value, const float* gradient, float* moment1, float* moment2, Element* compute,
                 const AdamWStep* settings, const float* norm_squared, std::int64_t n) {
  const std::int64_t first = thread_of_grid() * width;
  if (first >= n) return;
  const AdamWStep step = *settings;
  const float clip = clip_factor(*norm_squared, step.max_norm);
  if (!(clip == clip)) return;
  const auto update = [&](auto pack_width, std::int64_t i) {
    adamw_pack<decltype(pack_width)::value>(value + i, gradient + i, moment1 + i, moment2 + i,
                                            compute == nullptr ? nullptr : compute + i, step, clip);
  };
  if (first + width <= n) return update(std::integral_constant<int, width>{}, first);
  for (std::int64_t i = first; i < n; ++i) update(std::integral_constant<int, 1>{}, i);
}

// One pack per thread; the last one may be short.
template <typename Element, int width>
__global__ void __launch_bounds__(block_size)
    muon_momentum_kernel(float* momentum, const float* gradient, Element* update, const MuonStep* settings,
                         const float* norm_squared, std::int64_t n) {
  const std::int64_t first = thread_of_grid() * width;
  if (first >= n) return;
  const MuonStep step = *settings;
  const float clip = clip_factor(*norm_squared, step.max_norm);
  if (!(clip == clip)) return;
  const auto add = [&](auto pack_width, std::int64_t at) {
    constexpr int count = decltype(pack_width)::value;
    Pack<count> m = load<count>(momentum + at), g = load<count>(gradient + at);
    for (int i = 0; i < count; ++i) {
      g.at[i] *= clip;
      m.at[i] = step.momentum * m.at[i] + g.at[i];
      g.at[i] += step.momentum * m.at[i];
    }
    store(momentum + at, m);
    store(update + at, g);
  };
  if (first + width <= n) return add(std::integral_constant<int, width>{}, first);
  for (std::int64_t i = first; i < n; ++i) add(std::integral_constant<int, 1>{}, i);
}

// Takes an orthogonal update from the values, which decay. A gradient that is not finite changes nothing here either.
template <typename Element, int width>
__global__ void __launch_bounds__(block_size)
    muon_step_kernel(float* value, const Element* update, Element* compute, const MuonStep* settings,
                     const float* norm_squared, std::int64_t n) {
  const std::int64_t first = thread_of_grid() * width;
  if (first >= n || !(*norm_squared < INFINITY)) return;
  const MuonStep step = *settings;
  const float decay = 1.0f - step.learning_rate * step.weight_decay;
  const auto move = [&](auto pack_width, std::int64_t at) {
    constexpr int count = decltype(pack_width)::value;
    Pack<count> values = load<count>(value + at);
    const Pack<count> updates = load<count>(update + at);
    for (int i = 0; i < count; ++i) values.at[i] = values.at[i] * decay - step.learning_rate * updates.at[i];
    store(value + at, values);
    if (compute != nullptr) store(compute + at, values);
  };
  if (first + width <= n) return move(std::integral_constant<int, width>{}, first);
  for (std::int64_t i = first; i < n; ++i) move(std::integral_constant<int, 1>{}, i);
}

template <typename Element>
void dropout(const Element* x, Element* out, const std::uint64_t* key, std::uint64_t site, std::uint32_t threshold,
             float scale, std::int64_t n, std::int64_t per_row, Stream stream) {
  with_width<Element>(0, aligned(x, out), [&](auto width) {
    launch("dropout", dropout_kernel<Element, width()>, blocks_for(n, block_size * width()), block_size, stream, x, out,
           key, site, threshold, scale, n, per_row);
  });
}

void sum_of_squares(const float* x, std::int64_t n, double* scratch, float* out, Stream stream) {
  with_width<float>(0, aligned(x), [&](auto width) {
    const auto parts =
        static_cast<unsigned>(std::min<std::int64_t>(square_parts, divided_up(n, 4 * block_size * width())));
    launch("sum_of_squares", square_parts_kernel<width()>, parts, block_size, stream, x, scratch, n);
    launch("sum_of_squares", sum_squares_kernel, 1, warp_size, stream, scratch, static_cast<int>(parts), out);
  });
}

template <typename Element>
void adamw(float* value, const float* gradient, float* moment1, float* moment2, Element* compute,
           const AdamWStep* settings, const float* norm_squared, std::int64_t n, Stream stream) {
  with_width<float>(0, aligned(value, gradient, moment1, moment2, compute), [&](auto width) {
    launch("adamw", adamw_kernel<Element, width()>, blocks_for(n, block_size * width()), block_size, stream, value,
           gradient, moment1, moment2, compute, settings, norm_squared, n);
  });
}

template <typename Element>
void muon_momentum(float* momentum, const float* gradient, Element* update, const MuonStep* settings,
                   const float* norm_squared, std::int64_t n, Stream stream) {
  with_width<float>(0, aligned(momentum, gradient, update), [&](auto width) {
    launch("muon_momentum", muon_momentum_kernel<Element, width()>, blocks_for(n, block_size * width()), block_size,
           stream, momentum, gradient, update, settings, norm_squared, n);
  });
}

template <typename Element>
void muon_step(float* value, const Element* update, Element* compute, const MuonStep* settings,
               const float* norm_squared, std::int64_t n, Stream stream) {
  with_width<float>(0, aligned(value, update, compute), [&](auto width) {
    launch("muon_step", muon_step_kernel<Element, width()>, blocks_for(n, block_size * width()), block_size, stream,
           value, update, compute, settings, norm_squared, n);
  });
}

}  // namespace

template <typename Element>
void fill_flat_memory(CudaKernels<Element>& table) {
  table.dropout = dropout<Element>;
  table.sum_of_squares = sum_of_squares;
  table.adamw = adamw<Element>;
  table.muon_momentum = muon_momentum<Element>;
  table.muon_step = muon_step<Element>;
}
template void fill_flat_memory(CudaKernels<float>&);
template void fill_flat_memory(CudaKernels<BFloat16>&);

}  // namespace inkling::cuda
