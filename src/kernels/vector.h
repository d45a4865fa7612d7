// As many floats as one register of the instruction set holds (AVX-512: 16, AVX2: 8, baseline: 4). Only for the loops
// that are compiled once per instruction set; everything here is in an unnamed namespace, so that no two of them share
// a function.
#pragma once

#include <immintrin.h>

#include <cstdint>

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

[[gnu::always_inline]] inline float sum_of(Vector values) {
  float total = 0.0f;
  for (std::int64_t lane = 0; lane < lanes; ++lane) total += values[lane];
  return total;
}

}  // namespace
