// Batches of token windows as tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "data/windows.h"
#include "formats/token_file.h"

namespace inkling {

struct Batch {
  at::Tensor tokens;   // int64 [B, T]
  at::Tensor targets;  // int64 [B, T]: the token that follows each
};

// Returns zeros on `device`, T = block_size.
Batch empty_batch(std::int64_t rows, std::int64_t block_size, at::Device device);

// Writes the windows that begin at these tokens of the sequence into the first rows of `batch` [B, T] on the CPU.
void fill_batch(const Batch& batch, const TokenSequence& sequence, std::span<const std::uint64_t> starts);

// Returns where `rows` windows of the batch of step `step` begin, from row `first`: row r of that batch is window
// number step * batch_size + r.
std::vector<std::uint64_t> training_windows(const WindowOrder& order, std::int64_t step, std::int64_t batch_size,
                                            std::int64_t first, std::int64_t rows);

// Returns where `count` evaluation windows begin: evenly spread over the sequence, the same at every evaluation.
std::vector<std::uint64_t> evaluation_windows(std::uint64_t token_count, std::int64_t block_size, std::int64_t count);

}  // namespace inkling
