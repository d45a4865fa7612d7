// Dropout whose mask is a function of (seed, step, micro-batch, place), so that nothing random has state.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/context.h"

namespace inkling {

// Each element becomes 0 with probability context.dropout, else x / (1 - p). Outside training: x itself.
// The numbers are random_bits(); only LibTorch's composed operations on a GPU or in bfloat16, and its attention there,
// draw their own, from the generator that seed_dropout() has set.
at::Tensor dropout(const at::Tensor& x, Context& context);

// What is dropped: where the upper half of random_bits() is below this.
inline std::uint32_t dropout_threshold(double probability) {
  return static_cast<std::uint32_t>(probability * 4294967296.0);
}

// Sets the device generator that ATen's dropout uses from context.dropout_key. Once per micro-batch.
void seed_dropout(const at::Device& device, const Context& context);

}  // namespace inkling
