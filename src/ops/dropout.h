// Dropout whose mask is a function of (seed, step, micro-batch, place), so that nothing random has state.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/context.h"

namespace inkling {

// Each element becomes 0 with probability context.dropout, else x / (1 - p). Outside training: x itself.
// On a GPU the numbers are ATen's, whose generator seed_dropout() has set; on the CPU they are random_bits().
at::Tensor dropout(const at::Tensor& x, Context& context);

// What is dropped: where the upper half of random_bits() is below this.
inline std::uint32_t dropout_threshold(double probability) {
  return static_cast<std::uint32_t>(probability * 4294967296.0);
}

// Sets the device generator that ATen's dropout uses from context.dropout_key. Once per micro-batch.
void seed_dropout(const at::Device& device, const Context& context);

}  // namespace inkling
