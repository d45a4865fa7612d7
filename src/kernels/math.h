// Arithmetic without library calls, so that a loop over it vectorises.
#pragma once

#include <bit>
#include <cstdint>

namespace inkling {

// a * b + c: fused where the instruction set has it, two operations elsewhere, never a library call.
[[gnu::always_inline]] inline float multiply_add(float a, float b, float c) {
#ifdef __FMA__
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}

// (e^r - 1 - r) / r^2 on [-ln2/2, ln2/2], for a float or a register of them.
template <typename Number>
[[gnu::always_inline]] inline Number exp_series(Number r) {
  Number p = 1.9875691500e-4f * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  return p * r + 5.0000001201e-1f;
}

// e^x for float, relative error below 2e-7 on [-87, 88]; clamped outside (0 is never returned: about 1e-38).
// Cody-Waite reduction to [-ln2/2, ln2/2], then a polynomial.
[[gnu::always_inline]] inline float fast_exp(float x) {
  x = x < -87.0f ? -87.0f : x;
  x = x > 88.0f ? 88.0f : x;
  const float shifted = x * 1.44269504088896341f + 12582912.0f;  // the integer part lands in the low mantissa bits
  const float n = shifted - 12582912.0f;
  const float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  const float p = exp_series(r) * r * r + r + 1.0f;
  const auto exponent = static_cast<std::uint32_t>(static_cast<std::int32_t>(n) + 127) << 23;
  return p * std::bit_cast<float>(exponent);
}

// tanh(x), relative error below 1e-6: near 0 e^2x - 1 comes from its series, so that nothing cancels.
[[gnu::always_inline]] inline float fast_tanh(float x) {
  const float doubled = 2.0f * x;
  const float near = exp_series(doubled) * doubled * doubled + doubled, far = fast_exp(doubled) - 1.0f;
  const float minus_one = doubled > -0.34f && doubled < 0.34f ? near : far;  // e^2x - 1
  return x > 20.0f ? 1.0f : minus_one / (minus_one + 2.0f);
}

}  // namespace inkling
