#include "train/batches.h"

#include <ATen/ops/zeros.h>

#include <algorithm>

namespace inkling {

Batch empty_batch(std::int64_t rows, std::int64_t block_size, at::Device device) {
  const auto options = at::TensorOptions().dtype(at::kLong).device(device);
  return {at::zeros({rows, block_size}, options), at::zeros({rows, block_size}, options)};
}

void fill_batch(const Batch& batch, const TokenSequence& sequence, std::span<const std::uint64_t> starts) {
  const std::int64_t block_size = batch.tokens.size(1);
  auto* tokens = batch.tokens.data_ptr<std::int64_t>();
  auto* targets = batch.targets.data_ptr<std::int64_t>();
  std::vector<Token> window(static_cast<std::size_t>(block_size) + 1);
  for (const std::uint64_t start : starts) {
    sequence.read(start, window);
    tokens = std::copy(window.begin(), window.end() - 1, tokens);
    targets = std::copy(window.begin() + 1, window.end(), targets);
  }
}

std::vector<std::uint64_t> training_windows(const WindowOrder& order, std::int64_t step, std::int64_t batch_size,
                                            std::int64_t first, std::int64_t rows) {
  std::vector<std::uint64_t> starts;
  for (std::int64_t row = first; row < first + rows; ++row) {
    starts.push_back(order.start(static_cast<std::uint64_t>(step * batch_size + row)));
  }
  return starts;
}

std::vector<std::uint64_t> evaluation_windows(std::uint64_t token_count, std::int64_t block_size, std::int64_t count) {
  const std::uint64_t last = token_count - static_cast<std::uint64_t>(block_size) - 1;
  const auto wanted = std::min<std::uint64_t>(static_cast<std::uint64_t>(count), last + 1);
  std::vector<std::uint64_t> starts;
  for (std::uint64_t i = 0; i < wanted; ++i) {
    // last * i / wanted, in two parts so that no product overflows
    starts.push_back(last / wanted * i + last % wanted * i / wanted);
  }
  return starts;
}

}  // namespace inkling
