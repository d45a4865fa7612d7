// The heads of attention, as views of what lies packed in a tensor: nothing is copied.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace inkling {

struct Heads {
  at::Tensor queries, keys, values;  // [B, H, T, D]
};

// Returns the heads of queries, keys and values that lie side by side. qkv: [B, T, 3C]
inline Heads split_heads(const at::Tensor& qkv, std::int64_t n_head) {
  const at::Tensor parts = qkv.view({qkv.size(0), qkv.size(1), 3, n_head, qkv.size(2) / 3 / n_head});
  const auto part = [&](std::int64_t number) { return parts.select(2, number).transpose(1, 2); };
  return {part(0), part(1), part(2)};
}

}  // namespace inkling
