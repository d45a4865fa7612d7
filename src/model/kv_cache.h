// The keys and values of texts that are being generated, and what their convolutions still see.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "backend/backend.h"
#include "backend/heads.h"
#include "model/parameters.h"

namespace inkling {

struct KeyValueCache {
  KeyValueCache() = default;
  // Makes empty rows for texts of at most `positions` tokens; a layer keeps what its pattern still sees. options:
  // device and dtype of keys and values.
  KeyValueCache(const GptShape& shape, std::int64_t rows, std::int64_t positions, const at::TensorOptions& options);

  std::int64_t rows() const { return lengths.size(0); }

  // Takes over all that another one of as many rows holds.
  void copy_from(const KeyValueCache& other);

  // A view of the rows [first, first + count).
  KeyValueCache narrow(std::int64_t first, std::int64_t count) const;

  std::vector<CachedLayer> layers;
  at::Tensor lengths;  // int64 [B]: the positions that each row holds
};

// Returns which position each slot of a layer holds in rows of these lengths, by cached_place(): [B, capacity], below 0
// where none.
at::Tensor held_positions(const at::Tensor& lengths, const AttentionPattern& pattern, std::int64_t capacity);

// Writes the last of T inputs of a convolution, [B, T, C], into an empty ring; an undefined one stays.
void fill(const at::Tensor& conv_inputs, const at::Tensor& x, const at::Tensor& lengths);

// Writes keys and values of T positions, of which row b has lengths[b], into an empty layer.
void fill(const CachedLayer& layer, const AttentionPattern& pattern, const Heads& heads, const at::Tensor& lengths);

}  // namespace inkling
