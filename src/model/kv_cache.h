// The keys and values of texts that are being generated.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "backend/backend.h"
#include "backend/heads.h"
#include "model/weights.h"

namespace inkling {

struct KeyValueCache {
  KeyValueCache() = default;
  // Makes empty rows with room for `positions` each. options: device and dtype of keys and values.
  KeyValueCache(const GptShape& shape, std::int64_t rows, std::int64_t positions, const at::TensorOptions& options);

  std::int64_t rows() const { return lengths.size(0); }

  // A view of the rows [first, first + count).
  KeyValueCache narrow(std::int64_t first, std::int64_t count) const;

  std::vector<CachedLayer> layers;
  at::Tensor lengths;  // int64 [B]: the positions that each row holds
};

// Writes keys and values of T positions into columns 0..T-1. Where a prompt is shorter than T, nobody reads the columns
// after its end.
void fill(const CachedLayer& layer, const Heads& heads);

}  // namespace inkling
