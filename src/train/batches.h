// Batches of token windows as tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "data/windows.h"
#include "formats/token_file.h"

namespace inkling {

struct Batch {
  at::Tensor tokens;          // int64 [B, T]
  at::Tensor targets;         // int64 [B, T]: the token that follows each, or not_scored
  at::Tensor positions = {};  // int64 [B, T]: TrainingPass::positions, where documents are kept apart

  // The tensors that there are, in this order.
  std::vector<at::Tensor> tensors() const;
  Batch first_rows(std::int64_t count) const;
};

// What one row of a batch holds, one range behind the other.
using Row = std::vector<TokenRange>;

// Returns zeros on `device`, T = block_size; without positions unless documents are kept apart.
Batch empty_batch(std::int64_t rows, std::int64_t block_size, at::Device device, bool has_positions = false);

// Writes these rows into the first of `batch`, whose tensors are on the CPU. With a separator, documents are kept
// apart: one begins with each range and with each separator. Where a row holds fewer than T inputs, separators that are
// not scored fill it up, which needs one.
void fill_batch(const Batch& batch, const TokenSequence& sequence, std::span<const Row> rows,
                std::optional<Token> separator = {});

// Returns the batch of step `step`: its row r is window number step * batch_size + r.
std::vector<Row> training_rows(const TrainingWindows& windows, std::int64_t step, std::int64_t batch_size);

// Returns how many inputs these rows hold, which is how many targets are scored.
std::uint64_t scored_targets(std::span<const Row> rows);

// Returns `count` evaluation windows: evenly spread over the sequence, the same at every evaluation.
std::vector<Row> evaluation_rows(std::uint64_t token_count, std::int64_t block_size, std::int64_t count);

}  // namespace inkling
