#include "train/batches.h"

#include <ATen/ops/empty.h>

#include <algorithm>

namespace inkling {

Batch read_batch(const TokenSequence& sequence, const std::vector<std::uint64_t>& starts, std::int64_t block_size,
                 at::Device device) {
  const auto rows = static_cast<std::int64_t>(starts.size());
  const at::Tensor tokens = at::empty({rows, block_size}, at::kLong);
  const at::Tensor targets = at::empty({rows, block_size}, at::kLong);
  std::vector<Token> window(static_cast<std::size_t>(block_size) + 1);
  for (std::int64_t row = 0; row < rows; ++row) {
    sequence.read(starts[static_cast<std::size_t>(row)], window);
    std::copy(window.begin(), window.end() - 1, tokens.data_ptr<std::int64_t>() + row * block_size);
    std::copy(window.begin() + 1, window.end(), targets.data_ptr<std::int64_t>() + row * block_size);
  }
  return {tokens.to(device), targets.to(device)};
}

Batch training_batch(const TokenSequence& sequence, const WindowOrder& order, std::int64_t step,
                     std::int64_t batch_size, std::int64_t first, std::int64_t count, std::int64_t block_size,
                     at::Device device) {
  std::vector<std::uint64_t> starts;
  for (std::int64_t row = first; row < first + count; ++row) {
    starts.push_back(order.start(static_cast<std::uint64_t>(step * batch_size + row)));
  }
  return read_batch(sequence, starts, block_size, device);
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
