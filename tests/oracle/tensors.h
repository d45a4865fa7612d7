// Reproducible tensors, and how far one is from another.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace inkling::oracle {

// float64 on the CPU: element i is scale * random_normal(key, i).
at::Tensor normal(std::uint64_t key, at::IntArrayRef shape, double scale = 1.0);

// int64 in [0, below): uniform, from (key, i).
at::Tensor tokens(std::uint64_t key, at::IntArrayRef shape, std::int64_t below);

// DropoutPlace::key (backend/backend.h) on a device.
at::Tensor key_on(at::Device device, std::uint64_t key, std::int64_t first_row = 0);

// The largest error of a row, relative to that row: |actual - expected| / |expected| with the norms over the last
// dimension, in float64 on the CPU. A row of zeros must be met exactly. Infinite where shapes differ or a value is NaN.
double error(const at::Tensor& actual, const at::Tensor& expected);

// The same bits, shape and dtype.
bool identical(const at::Tensor& a, const at::Tensor& b);

}  // namespace inkling::oracle
