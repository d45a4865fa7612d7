// Attention of one new position over cached keys and values. A block takes a chunk of the keys of one head, so that a
// single sequence fills the GPU too (Dao et al. 2023, Flash-Decoding); the last one of a head joins the chunks in
// order.
#include <cmath>

#include "kernels/cuda_tables.h"
#include "kernels/reductions.h"

namespace inkling::cuda {
namespace {

constexpr int threads = 2 * static_cast<int>(attention_chunk);  // two for each key's score
constexpr int largest_head = static_cast<int>(largest_cached_head);

template <typename Element>
struct CachedAttention {
  const Element* qkv;           // [B, (H + 2 G) D], of H queries that share G keys and values
  Element* keys;                // [B, G, block, D], filled as cached_place() says
  Element* values;              // [B, G, block, D]
  const std::int64_t* lengths;  // [B]
  Element* out;                 // [B, H D]
  unsigned* arrivals;           // [B, H]: blocks that have written their piece; 0 before and after
  float* pieces;  // [B, H, chunks, D + 2]: the weighted sum of values, the largest score, the sum of weights
  std::int64_t block, dilation, ring;  // the keys of each of `dilation` interleaved texts lie in a ring of their own
  int heads, shared_heads, head_size, chunks;

  // Of this block's head and sequence: blockIdx.y and blockIdx.z.
  __device__ std::int64_t head() const { return static_cast<std::int64_t>(blockIdx.z) * heads + blockIdx.y; }
  __device__ int shared_head() const { return static_cast<int>(blockIdx.y) / (heads / shared_heads); }
  __device__ const Element* packed(int number) const {
    return qkv + (static_cast<std::int64_t>(blockIdx.z) * (heads + 2 * shared_heads) + number) * head_size;
  }
  __device__ const Element* query() const { return packed(static_cast<int>(blockIdx.y)); }
  __device__ const Element* new_key() const { return packed(heads + shared_head()); }
  __device__ const Element* new_value() const { return packed(heads + shared_heads + shared_head()); }
  // Of the first cached key and value of this block's head.
  __device__ std::int64_t cached() const {
    return (static_cast<std::int64_t>(blockIdx.z) * shared_heads + shared_head()) * block * head_size;
  }
  __device__ float* piece(int chunk) const { return pieces + (head() * chunks + chunk) * (head_size + 2); }
};

// The weighted sum of the values of a chunk: neighbouring threads take neighbouring packs, groups of them every so-many
// keys. weights: [count], shared memory.
template <int width, typename Element>
__device__ inline void sum_values(const float* weights, const Element* values, int count, int head_size, float* out) {
  __shared__ float shared[largest_head];
  const int packs = head_size / width;
  const int team = min(packs, threads);
  const int groups = min(threads / team, largest_head / head_size);
  const int group = static_cast<int>(threadIdx.x) / team;
  for (int pack = static_cast<int>(threadIdx.x) % team; pack < packs && group < groups; pack += team) {
    Pack<width> sum = filled<width>(0.0f);
#pragma unroll 4
    for (int t = group; t < count; t += groups) {
      add_multiple(sum, weights[t], load<width>(values + static_cast<std::int64_t>(t) * head_size + pack * width));
    }
    for (int i = 0; i < width; ++i) shared[group * head_size + pack * width + i] = sum.at[i];
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < head_size; i += threads) {
    float total = 0.0f;
    for (int other = 0; other < groups; ++other) total += shared[other * head_size + i];
    out[i] = total;
  }
}

// Whether all of a head's blocks have come here, of which there are `count`: then what they wrote before can be read.
// Every thread of the block must call. The last block sets the counter back to 0.
__device__ inline bool is_last_of(unsigned* arrivals, unsigned count) {
  __shared__ bool last;
  __syncthreads();  // the block has written
  if (threadIdx.x == 0) {
    __threadfence();  // what the block wrote is seen before its arrival is …
    last = atomicInc(arrivals, count - 1) == count - 1;
    __threadfence();  // … and what the others wrote is read after theirs
  }
  __syncthreads();
  return last;
}

template <typename Element>
__device__ inline void join_chunks(const CachedAttention<Element>& attention, int chunks) {
  const int size = attention.head_size;
  float largest = -INFINITY;
#pragma unroll 4
  for (int chunk = 0; chunk < chunks; ++chunk) largest = fmaxf(largest, attention.piece(chunk)[size]);
  for (int i = static_cast<int>(threadIdx.x); i < size; i += threads) {
    float sum = 0.0f;
    float total = 0.0f;
#pragma unroll 4
    for (int chunk = 0; chunk < chunks; ++chunk) {
      const float* const piece = attention.piece(chunk);
      const float factor = __expf(piece[size] - largest);
      sum += factor * piece[i];
      total += factor * piece[size + 1];
    }
    attention.out[attention.head() * size + i] = from_float<Element>(sum / total);
  }
}

// Chunk blockIdx.x. The chunk of the new position puts its key and value into the cache. Blocks whose heads share them
// all write the same there, each before it reads them.
template <typename Element, int width>
__global__ void __launch_bounds__(threads) chunk_kernel(CachedAttention<Element> attention) {
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) * attention_chunk;
  const std::int64_t position = attention.lengths[blockIdx.z];  // the new one
  const std::int64_t number = position / attention.dilation;    // in its text
  const std::int64_t seen = min(number + 1, attention.ring);
  if (begin >= seen) return;  // the whole block
  const int size = attention.head_size;
  const int count = static_cast<int>(min(attention_chunk, seen - begin));
  const std::int64_t place = attention.cached() + (position % attention.dilation * attention.ring + begin) * size;
  const std::int64_t slot = number % attention.ring - begin;
  if (slot >= 0 && slot < count) {
    for (int i = static_cast<int>(threadIdx.x); i < size; i += threads) {
      attention.keys[place + slot * size + i] = attention.new_key()[i];
      attention.values[place + slot * size + i] = attention.new_value()[i];
    }
  }
  __syncthreads();  // the whole block reads them

  const int t = static_cast<int>(threadIdx.x) / 2;
  const bool first_half = threadIdx.x % 2 == 0;
  float score = 0.0f;
  if (t < count) {
    const Element* const key = attention.keys + place + t * size;
#pragma unroll 4
    for (int i = first_half ? 0 : width; i < size; i += 2 * width) {
      score += dot(load<width>(attention.query() + i), load<width>(key + i));
    }
  }
  score = (score + __shfl_xor_sync(0xffffffffu, score, 1)) * rsqrtf(static_cast<float>(size));
  const float largest = group_max<threads>(t < count ? score : -INFINITY);
  const float weight = t < count ? __expf(score - largest) : 0.0f;
  __shared__ float weights[attention_chunk];
  if (first_half) weights[t] = weight;
  const float total = group_sum<threads>(first_half ? weight : 0.0f);  // after which all see the weights
  float* const piece = attention.piece(static_cast<int>(blockIdx.x));
  sum_values<width>(weights, attention.values + place, count, size, piece);
  if (threadIdx.x == 0) {
    piece[size] = largest;
    piece[size + 1] = total;
  }
  const auto chunks = static_cast<unsigned>((seen - 1) / attention_chunk) + 1;
  if (is_last_of(attention.arrivals + attention.head(), chunks)) join_chunks(attention, static_cast<int>(chunks));
}

template <typename Element>
void attend_cached(const Element* qkv, Element* keys, Element* values, const std::int64_t* lengths, Element* out,
                   float* scratch, std::uint32_t* arrivals, std::int64_t batch, const AttentionForm& form,
                   std::int64_t block, Stream stream) {
  const std::int64_t ring = form.pattern.ring(block);
  const auto chunks = static_cast<unsigned>(divided_up(ring, attention_chunk));
  CachedAttention<Element> attention = {};
  attention.qkv = qkv;
  attention.keys = keys;
  attention.values = values;
  attention.lengths = lengths;
  attention.out = out;
  attention.arrivals = arrivals;
  attention.pieces = scratch;
  attention.block = block;
  attention.dilation = form.pattern.dilation;
  attention.ring = ring;
  attention.heads = static_cast<int>(form.n_head);
  attention.shared_heads = static_cast<int>(form.n_kv_head);
  attention.head_size = static_cast<int>(form.head_size);
  attention.chunks = static_cast<int>(chunks);
  if (form.head_size > largest_head) {
    throw Error::environment("heads of more than " + std::to_string(largest_head) +
                             " channels have no CUDA kernel here: set runtime.kernels to reference");
  }
  with_width<Element>(form.head_size, aligned(qkv, keys, values), [&](auto width) {
    const dim3 grid(chunks, static_cast<unsigned>(form.n_head), static_cast<unsigned>(batch));
    launch("attend_cached", chunk_kernel<Element, width()>, grid, threads, stream, attention);
  });
}

}  // namespace

template <typename Element>
void fill_attend_cached(CudaKernels<Element>& table) {
  table.attend_cached = attend_cached<Element>;
}
template void fill_attend_cached(CudaKernels<float>&);
template void fill_attend_cached(CudaKernels<BFloat16>&);

}  // namespace inkling::cuda
