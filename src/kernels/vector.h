// As many floats as one register of the instruction set holds (AVX-512: 16, AVX2: 8, baseline: 4). Only for the loops
// that are compiled once per instruction set; everything here is in an unnamed namespace, so that no two of them share
// a function.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/math.h"

namespace {

#if defined(__AVX512F__)
constexpr std::int64_t lanes = 16;
#elif defined(__AVX2__)
constexpr std::int64_t lanes = 8;
#else
constexpr std::int64_t lanes = 4;
#endif

typedef float Vector __attribute__((vector_size(lanes * 4)));
typedef float UnalignedVector __attribute__((vector_size(lanes * 4), aligned(4), may_alias));

[[gnu::always_inline]] inline Vector load(const float* from) { return *reinterpret_cast<const UnalignedVector*>(from); }

[[gnu::always_inline]] inline void store(float* to, Vector values) { *reinterpret_cast<UnalignedVector*>(to) = values; }

[[gnu::always_inline]] inline Vector broadcast(float value) {
#if defined(__AVX512F__)
  return _mm512_set1_ps(value);
#elif defined(__AVX2__)
  return _mm256_set1_ps(value);
#else
  return _mm_set1_ps(value);
#endif
}

// a * b + c: rounded once where the instruction set has it, twice elsewhere.
[[gnu::always_inline]] inline Vector multiply_add(Vector a, Vector b, Vector c) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(a, b, c);
#elif defined(__FMA__)
  return _mm256_fmadd_ps(a, b, c);
#else
  return a * b + c;
#endif
}

typedef std::int32_t IntegerVector __attribute__((vector_size(lanes * 4)));

// values in the first `count` lanes, `other` in the rest.
[[gnu::always_inline]] inline Vector first_lanes(Vector values, std::int64_t count, Vector other) {
  IntegerVector lane;
  for (std::int32_t i = 0; i < lanes; ++i) lane[i] = i;
  return lane < static_cast<std::int32_t>(count) ? values : other;
}

// NaN where b is NaN.
[[gnu::always_inline]] inline Vector larger(Vector a, Vector b) { return a > b ? a : b; }

// e^x, as fast_exp() in math.h.
[[gnu::always_inline]] inline Vector exponential(Vector x) {
  x = x < -87.0f ? broadcast(-87.0f) : x;
  x = x > 88.0f ? broadcast(88.0f) : x;
  const Vector shifted = multiply_add(x, broadcast(1.44269504088896341f), broadcast(12582912.0f));
  const Vector n = shifted - 12582912.0f;
  const Vector r = multiply_add(n, broadcast(2.12194440e-4f), multiply_add(n, broadcast(-0.693359375f), x));
  const Vector p = multiply_add(inkling::exp_series(r), r * r, r + 1.0f);
  const IntegerVector exponent = (__builtin_convertvector(n, IntegerVector) + 127) << 23;
  return p * reinterpret_cast<Vector>(exponent);
}

// Lane i of the result is lane i ^ distance of values.
template <std::int32_t distance>
[[gnu::always_inline]] inline Vector exchanged(Vector values) {
  IntegerVector from;
  for (std::int32_t i = 0; i < lanes; ++i) from[i] = i ^ distance;
  return __builtin_shuffle(values, from);
}

[[gnu::always_inline]] inline float sum_of(Vector values) {
  if constexpr (lanes > 8) values += exchanged<8 % lanes>(values);
  if constexpr (lanes > 4) values += exchanged<4 % lanes>(values);
  values += exchanged<2>(values);
  return values[0] + values[1];
}

[[gnu::always_inline]] inline float largest_of(Vector values) {
  if constexpr (lanes > 8) values = larger(values, exchanged<8 % lanes>(values));
  if constexpr (lanes > 4) values = larger(values, exchanged<4 % lanes>(values));
  values = larger(values, exchanged<2>(values));
  return values[0] > values[1] ? values[0] : values[1];
}

}  // namespace
