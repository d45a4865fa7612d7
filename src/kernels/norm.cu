// LayerNorm and RMSNorm with the residual addition in front. A row belongs to a warp, or to a block where it is too
// long, and stays in registers: `packs` packs of `width` values a thread.
#include "kernels/cuda_tables.h"
#include "kernels/reductions.h"

namespace inkling::cuda {
namespace {

constexpr int longest_of_warp = 1024;

// Where rows begin: every `channels` elements, or as heads of tokens that begin every `stride` elements.
struct RowPlaces {
  int channels, heads;
  std::int64_t stride;

  __device__ std::int64_t of(std::int64_t row) const { return row / heads * stride + row % heads * channels; }
};

// Where this thread's packs of a row lie.
template <int width, int threads>
__device__ inline int column_of(int pack) {
  return (pack * threads + static_cast<int>(threadIdx.x) % threads) * width;
}

template <typename Element, int width, int packs, int threads>
__global__ void __launch_bounds__(block_size)
    forward_kernel(const Element* x, const Element* branch, Element* sum, Element* out, float* mean, float* rstd,
                   const Element* weight, const Element* bias, NormForm form, std::int64_t rows, RowPlaces places) {
  const int channels = places.channels;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * (block_size / threads) + threadIdx.x / threads;
  if (row >= rows) return;  // all threads of a row
  const std::int64_t offset = places.of(row);
  Pack<width> values[packs], added[packs];
#pragma unroll
  for (int p = 0; p < packs; ++p) {  // all loads before the first store, which might be to the same array
    const int column = column_of<width, threads>(p);
    if (column >= channels) continue;
    values[p] = load<width>(x + offset + column);
    added[p] = branch == nullptr ? filled<width>(0.0f) : load<width>(branch + offset + column);
  }
  float total = 0.0f;
#pragma unroll
  for (int p = 0; p < packs; ++p) {
    const int column = column_of<width, threads>(p);
    if (column >= channels) continue;
    if (branch != nullptr) {
      add(values[p], added[p]);
      // What is normalized is the sum as it is stored, which is what the backward pass will see.
      for (int i = 0; i < width; ++i) values[p].at[i] = rounded<Element>(values[p].at[i]);
      store(sum + offset + column, values[p]);
    }
    for (int i = 0; i < width; ++i) total += values[p].at[i];
  }
  const bool centered = form.kind == NormKind::layernorm;
  const float center = centered ? group_sum<threads>(total) / static_cast<float>(channels) : 0.0f;
  float squares = 0.0f;
#pragma unroll
  for (int p = 0; p < packs; ++p) {
    if (column_of<width, threads>(p) >= channels) continue;
    for (int i = 0; i < width; ++i) squares += (values[p].at[i] - center) * (values[p].at[i] - center);
  }
  const float scale = rsqrtf(group_sum<threads>(squares) / static_cast<float>(channels) + form.epsilon);
#pragma unroll
  for (int p = 0; p < packs; ++p) {
    const int column = column_of<width, threads>(p);
    if (column >= channels) continue;
    const Pack<width> factor = load<width>(weight + column);
    const Pack<width> shift = bias == nullptr ? filled<width>(0.0f) : load<width>(bias + column);
    for (int i = 0; i < width; ++i) {
      values[p].at[i] = (values[p].at[i] - center) * scale * factor.at[i] + shift.at[i];
    }
    store(out + offset + column, values[p]);
  }
  if (threadIdx.x % threads == 0) {
    mean[row] = center;
    rstd[row] = scale;
  }
}

// One row of the backward pass: writes dx and adds to the column sums that this thread keeps. With
// n = (sum - mean) * rstd and g = dout * weight: dx = rstd * (g - mean(g) - n * mean(g * n)) + dsum, without mean(g)
// where nothing is centered.
template <typename Element, int width, int packs, int threads>
__device__ inline void backward_row(const Element* dout, const Element* dsum, const Element* sum, float center,
                                    float scale, const Element* weight, Element* dx, Pack<width> (&dweight)[packs],
                                    Pack<width> (&dbias)[packs], bool centered, int channels) {
  Pack<width> g[packs], normalized[packs];
  Pack<2> totals = {};
#pragma unroll
  for (int p = 0; p < packs; ++p) {
    const int column = column_of<width, threads>(p);
    if (column >= channels) continue;
    g[p] = load<width>(dout + column);
    normalized[p] = load<width>(sum + column);
    const Pack<width> factor = load<width>(weight + column);
    for (int i = 0; i < width; ++i) {
      normalized[p].at[i] = (normalized[p].at[i] - center) * scale;
      dweight[p].at[i] += g[p].at[i] * normalized[p].at[i];
      dbias[p].at[i] += g[p].at[i];
      g[p].at[i] *= factor.at[i];
      totals.at[0] += g[p].at[i];
      totals.at[1] += g[p].at[i] * normalized[p].at[i];
    }
  }
  totals = group_sums<threads>(totals);
  const float mean_g = centered ? totals.at[0] / static_cast<float>(channels) : 0.0f;
  const float mean_gn = totals.at[1] / static_cast<float>(channels);
#pragma unroll
  for (int p = 0; p < packs; ++p) {
    const int column = column_of<width, threads>(p);
    if (column >= channels) continue;
    Pack<width> result = dsum == nullptr ? filled<width>(0.0f) : load<width>(dsum + column);
    for (int i = 0; i < width; ++i) {
      result.at[i] += scale * (g[p].at[i] - mean_g - normalized[p].at[i] * mean_gn);
    }
    store(dx + column, result);
  }
}

// Block b of G takes rows b, b + G, … (warp by warp, where a row is a warp's) and leaves its sums of their terms of
// dweight in parts[b], of dbias in parts[G + b].
template <typename Element, int width, int packs, int threads>
__global__ void __launch_bounds__(block_size)
    backward_kernel(const Element* dout, const Element* dsum, const Element* sum, const float* mean, const float* rstd,
                    const Element* weight, Element* dx, float* parts, bool centered, std::int64_t rows,
                    RowPlaces places) {
  const int channels = places.channels;
  constexpr int groups = block_size / threads;
  const int group = static_cast<int>(threadIdx.x) / threads;
  Pack<width> dweight[packs], dbias[packs];
#pragma unroll
  for (int p = 0; p < packs; ++p) dweight[p] = dbias[p] = filled<width>(0.0f);
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * groups;
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * groups + group; row < rows; row += stride) {
    const std::int64_t offset = places.of(row);
    backward_row<Element, width, packs, threads>(dout + offset, dsum == nullptr ? nullptr : dsum + offset, sum + offset,
                                                 mean[row], rstd[row], weight, dx + offset, dweight, dbias, centered,
                                                 channels);
  }
  if constexpr (groups > 1) {
    __shared__ float shared[packs * width * warp_size];
    sum_over_warps(dweight, shared, group, groups);
    sum_over_warps(dbias, shared, group, groups);
    if (group < groups - 1) return;
  }
#pragma unroll
  for (int p = 0; p < packs; ++p) {
    const int column = column_of<width, threads>(p);
    if (column >= channels) continue;
    store(parts + static_cast<std::int64_t>(blockIdx.x) * channels + column, dweight[p]);
    store(parts + static_cast<std::int64_t>(gridDim.x + blockIdx.x) * channels + column, dbias[p]);
  }
}

// Calls function(packs, threads) for rows of `channels` values, `width` at a time.
template <int width, typename Function>
void with_row_shape(std::int64_t channels, Function&& function) {
  if (channels > longest_norm) {
    throw Error::environment("a norm of more than " + std::to_string(longest_norm) +
                             " channels has no CUDA kernel here: set runtime.kernels to reference");
  }
  const auto with_packs = [&](auto threads) {
    const std::int64_t held = divided_up(channels, 8 * threads());  // per thread, in eights
    if (held == 1) return function(std::integral_constant<int, 8 / width>{}, threads);
    if (held == 2) return function(std::integral_constant<int, 16 / width>{}, threads);
    if (held == 3) return function(std::integral_constant<int, 24 / width>{}, threads);
    return function(std::integral_constant<int, 32 / width>{}, threads);
  };
  if (channels <= longest_of_warp) return with_packs(std::integral_constant<int, warp_size>{});
  with_packs(std::integral_constant<int, block_size>{});
}

template <typename Element>
void queue_forward(const Element* x, const Element* branch, Element* sum, Element* out, float* mean, float* rstd,
                   const Element* weight, const Element* bias, const NormForm& form, std::int64_t rows,
                   const RowPlaces& places, Stream stream) {
  with_width<Element>(places.channels, aligned(x, branch, sum, out, weight, bias), [&](auto width) {
    with_row_shape<width()>(places.channels, [&](auto packs, auto threads) {
      launch("norm_forward", forward_kernel<Element, width(), packs(), threads()>,
             blocks_for(rows, block_size / threads()), block_size, stream, x, branch, sum, out, mean, rstd, weight,
             bias, form, rows, places);
    });
  });
}

template <typename Element>
void queue_backward(const Element* dout, const Element* dsum, const Element* sum, const float* mean, const float* rstd,
                    const Element* weight, Element* dx, float* dweight, float* dbias, float* scratch,
                    const NormForm& form, std::int64_t rows, const RowPlaces& places, Stream stream) {
  unsigned parts = 0;  // blocks
  with_width<Element>(places.channels, aligned(dout, dsum, sum, weight, dx, scratch), [&](auto width) {
    with_row_shape<width()>(places.channels, [&](auto packs, auto threads) {
      parts = static_cast<unsigned>(std::min<std::int64_t>(column_parts, divided_up(rows, block_size / threads())));
      launch("norm_backward", backward_kernel<Element, width(), packs(), threads()>, parts, block_size, stream, dout,
             dsum, sum, mean, rstd, weight, dx, scratch, form.kind == NormKind::layernorm, rows, places);
    });
  });
  if (dweight != nullptr) add_parts(scratch, parts, dweight, dbias, places.channels, stream);
}

RowPlaces one_behind_the_other(std::int64_t channels) { return {static_cast<int>(channels), 1, channels}; }

RowPlaces heads_of_tokens(const HeadRows& rows) {
  return {static_cast<int>(rows.head_size), static_cast<int>(rows.heads), rows.stride};
}

template <typename Element>
void norm_forward(const Element* x, const Element* branch, Element* sum, Element* out, float* mean, float* rstd,
                  const Element* weight, const Element* bias, const NormForm& form, std::int64_t rows,
                  std::int64_t channels, Stream stream) {
  queue_forward(x, branch, sum, out, mean, rstd, weight, bias, form, rows, one_behind_the_other(channels), stream);
}

template <typename Element>
void norm_backward(const Element* dout, const Element* dsum, const Element* sum, const float* mean, const float* rstd,
                   const Element* weight, Element* dx, float* dweight, float* dbias, float* scratch,
                   const NormForm& form, std::int64_t rows, std::int64_t channels, Stream stream) {
  queue_backward(dout, dsum, sum, mean, rstd, weight, dx, dweight, dbias, scratch, form, rows,
                 one_behind_the_other(channels), stream);
}

template <typename Element>
void norm_heads_forward(const Element* x, Element* out, float* mean, float* rstd, const Element* weight,
                        const NormForm& form, const HeadRows& rows, Stream stream) {
  const Element* const none = nullptr;
  queue_forward(x, none, static_cast<Element*>(nullptr), out, mean, rstd, weight, none, form, rows.tokens * rows.heads,
                heads_of_tokens(rows), stream);
}

template <typename Element>
void norm_heads_backward(const Element* dout, const Element* x, const float* mean, const float* rstd,
                         const Element* weight, Element* dx, float* dweight, float* scratch, const NormForm& form,
                         const HeadRows& rows, Stream stream) {
  queue_backward(dout, static_cast<const Element*>(nullptr), x, mean, rstd, weight, dx, dweight,
                 static_cast<float*>(nullptr), scratch, form, rows.tokens * rows.heads, heads_of_tokens(rows), stream);
}

}  // namespace

template <typename Element>
void fill_norm(CudaKernels<Element>& table) {
  table.norm_forward = norm_forward<Element>;
  table.norm_backward = norm_backward<Element>;
  table.norm_heads_forward = norm_heads_forward<Element>;
  table.norm_heads_backward = norm_heads_backward<Element>;
}
template void fill_norm(CudaKernels<float>&);
template void fill_norm(CudaKernels<BFloat16>&);

}  // namespace inkling::cuda
