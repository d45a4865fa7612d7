// Elements in memory are float or bfloat16; in registers they are floats, a pack of neighbours at a time.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "base/random.h"
#include "kernels/cuda_kernels.h"

namespace inkling::cuda {

template <int width>
struct Pack {
  float at[width];
};

__device__ inline float to_float(float value) { return value; }
__device__ inline float to_float(BFloat16 value) { return __uint_as_float(static_cast<unsigned>(value.bits) << 16); }

template <typename Element>
__device__ inline Element from_float(float value);
template <>
__device__ inline float from_float<float>(float value) {
  return value;
}
template <>
__device__ inline BFloat16 from_float<BFloat16>(float value) {
  return {__bfloat16_as_ushort(__float2bfloat16_rn(value))};
}

// The value that memory would hold.
template <typename Element>
__device__ inline float rounded(float value) {
  return to_float(from_float<Element>(value));
}

// Two bfloat16 in one word, the first in its lower half.
__device__ inline void unpack_pair(unsigned bits, float* to) {
  to[0] = __uint_as_float(bits << 16);
  to[1] = __uint_as_float(bits & 0xffff0000u);
}
__device__ inline unsigned pack_pair(const float* from) {
  return from_float<BFloat16>(from[0]).bits | static_cast<unsigned>(from_float<BFloat16>(from[1]).bits) << 16;
}

// width is 1, 4 or 8; from is aligned to the pack's size, at most 16 bytes.
template <int width>
__device__ inline Pack<width> load(const float* from) {
  Pack<width> pack;
  if constexpr (width == 1) {
    pack.at[0] = *from;
  } else {
#pragma unroll
    for (int i = 0; i < width; i += 4) {
      const float4 part = *reinterpret_cast<const float4*>(from + i);
      pack.at[i] = part.x;
      pack.at[i + 1] = part.y;
      pack.at[i + 2] = part.z;
      pack.at[i + 3] = part.w;
    }
  }
  return pack;
}

template <int width>
__device__ inline Pack<width> load(const BFloat16* from) {
  Pack<width> pack;
  if constexpr (width == 1) {
    pack.at[0] = to_float(*from);
  } else if constexpr (width == 4) {
    const uint2 bits = *reinterpret_cast<const uint2*>(from);
    unpack_pair(bits.x, pack.at);
    unpack_pair(bits.y, pack.at + 2);
  } else {
    const uint4 bits = *reinterpret_cast<const uint4*>(from);
    unpack_pair(bits.x, pack.at);
    unpack_pair(bits.y, pack.at + 2);
    unpack_pair(bits.z, pack.at + 4);
    unpack_pair(bits.w, pack.at + 6);
  }
  return pack;
}

template <int width>
__device__ inline void store(float* to, const Pack<width>& pack) {
  if constexpr (width == 1) {
    *to = pack.at[0];
  } else {
#pragma unroll
    for (int i = 0; i < width; i += 4) {
      *reinterpret_cast<float4*>(to + i) = make_float4(pack.at[i], pack.at[i + 1], pack.at[i + 2], pack.at[i + 3]);
    }
  }
}

template <int width>
__device__ inline void store(BFloat16* to, const Pack<width>& pack) {
  if constexpr (width == 1) {
    *to = from_float<BFloat16>(pack.at[0]);
  } else if constexpr (width == 4) {
    *reinterpret_cast<uint2*>(to) = {pack_pair(pack.at), pack_pair(pack.at + 2)};
  } else {
    *reinterpret_cast<uint4*>(to) = {pack_pair(pack.at), pack_pair(pack.at + 2), pack_pair(pack.at + 4),
                                     pack_pair(pack.at + 6)};
  }
}

template <int width>
__device__ inline Pack<width> filled(float value) {
  Pack<width> pack;
#pragma unroll
  for (int i = 0; i < width; ++i) pack.at[i] = value;
  return pack;
}

// to += from
template <int width>
__device__ inline void add(Pack<width>& to, const Pack<width>& from) {
#pragma unroll
  for (int i = 0; i < width; ++i) to.at[i] += from.at[i];
}

// to += factor * from. Fused multiply-adds are written out here and below, so that every kernel gets the same bits.
template <int width>
__device__ inline void add_multiple(Pack<width>& to, float factor, const Pack<width>& from) {
#pragma unroll
  for (int i = 0; i < width; ++i) to.at[i] = fmaf(factor, from.at[i], to.at[i]);
}

template <int width>
__device__ inline float dot(const Pack<width>& a, const Pack<width>& b) {
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < width; ++i) sum = fmaf(a.at[i], b.at[i], sum);
  return sum;
}

// The random numbers of base/random.h, for the device.

// mix64
__device__ inline std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// random_bits
__device__ inline std::uint64_t random_bits_at(std::uint64_t key, std::uint64_t index) {
  return mixed(key + (index + 1) * golden_gamma);
}

}  // namespace inkling::cuda
