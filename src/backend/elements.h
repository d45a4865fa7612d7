// Turns tensors and DropoutPlaces into what kernels take.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "backend/backend.h"
#include "base/error.h"
#include "base/random.h"

namespace inkling {

// Returns the elements of a contiguous tensor; null for an undefined one. Throws Error internal for a tensor with gaps.
template <typename Element>
Element* elements(const at::Tensor& tensor) {
  if (!tensor.defined()) return nullptr;
  if (!tensor.is_contiguous()) throw Error::internal("a kernel was given a tensor with gaps");
  return static_cast<Element*>(tensor.data_ptr());
}

inline float* floats(const at::Tensor& tensor) { return elements<float>(tensor); }

// An element is dropped where the upper half of its random bits is below this.
inline std::uint32_t dropout_threshold(double probability) {
  return static_cast<std::uint32_t>(probability * 4294967296.0);
}

// What the other elements are multiplied by.
inline float dropout_scale(double probability) { return static_cast<float>(1.0 / (1.0 - probability)); }

// What a gradient of this norm is multiplied by, so that its norm is at most max_norm; 0 does not clip.
inline double clip_factor(double norm, double max_norm) {
  return max_norm > 0.0 && norm > max_norm ? max_norm / (norm + 1e-6) : 1.0;
}

// The key of a place's stream of random numbers, where DropoutPlace::key lies in the host's memory.
inline std::uint64_t dropout_stream(const DropoutPlace& place) {
  if (place.probability == 0.0) return 0;
  return mix64(*elements<std::uint64_t>(place.key) + place.place * golden_gamma);
}

// Which row of the batch the first one here is, so that each has its own random numbers.
inline std::int64_t first_row(const DropoutPlace& place) {
  return place.probability == 0.0 ? 0 : elements<std::int64_t>(place.key)[1];
}

}  // namespace inkling
