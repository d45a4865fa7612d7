// The Newton-Schulz iteration of Muon (Jordan et al. 2024), in memory that is there already and without waiting for a
// GPU, so that it can be recorded.
#pragma once

#include <ATen/ScalarOps.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/div.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mul.h>

#include <utility>

#include "backend/backend.h"

namespace inkling {

// A step makes a s + b s^3 + c s^5 of a singular value s. Five steps take all but the smallest of (0, 1] to between 0.6
// and 1.3.
inline constexpr double newton_schulz_a = 3.4445, newton_schulz_b = -4.7750, newton_schulz_c = 2.0315;
// Added to the norm that a matrix is divided by, so that zeros stay zeros.
inline constexpr double least_muon_norm = 1e-7;

// next = a x + (b A + c A^2) x with A = x x^T, or the same from the right, with x^T x, where that is smaller.
// x, next: [n, rows, columns]; gram, polynomial: [n, s, s] with s the smaller side.
inline void newton_schulz_step(const at::Tensor& x, at::Tensor& next, at::Tensor& gram, at::Tensor& polynomial) {
  const bool is_tall = x.size(1) > x.size(2);
  at::bmm_out(gram, is_tall ? x.mT() : x, is_tall ? x : x.mT());
  at::baddbmm_out(polynomial, gram, gram, gram, newton_schulz_b, newton_schulz_c);
  at::baddbmm_out(next, x, is_tall ? x : polynomial, is_tall ? polynomial : x, newton_schulz_a, 1.0);
}

// Makes each matrix of range.memory.update nearly orthogonal, times its scale.
inline void orthogonalize(const MuonRange& range) {
  const MuonMemory& memory = range.memory;
  for (const MuonMatrices& matrices : range.matrices) {
    const std::int64_t count = matrices.count, side = matrices.side();
    const auto large = [&](const at::Tensor& flat) {
      return flat.narrow(0, 0, matrices.elements()).view({count, matrices.rows, matrices.columns});
    };
    const auto square = [&](const at::Tensor& flat) {
      return flat.narrow(0, 0, count * side * side).view({count, side, side});
    };
    at::Tensor x = large(memory.x), next = large(memory.next);
    at::Tensor gram = square(memory.gram), polynomial = square(memory.polynomial);
    at::Tensor update = matrices.part_of(memory.update);
    at::div_out(x, update, at::linalg_vector_norm(update, 2, {1, 2}, true, at::kFloat).add_(least_muon_norm));
    for (std::int64_t step = 0; step < range.newton_schulz_steps; ++step) {
      newton_schulz_step(x, next, gram, polynomial);
      std::swap(x, next);
    }
    at::mul_out(update, x, at::native::wrapped_scalar_tensor(matrices.scale));
  }
}

}  // namespace inkling
