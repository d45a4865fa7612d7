#include "train/batches.h"

#include <ATen/ops/zeros.h>

#include <algorithm>

namespace inkling {
namespace {

// `start(row)` says where the window of each row begins.
template <typename Start>
void fill(const Batch& batch, const TokenSequence& sequence, const Start& start) {
  const std::int64_t block_size = batch.tokens.size(1);
  std::vector<Token> window(static_cast<std::size_t>(block_size) + 1);
  for (std::int64_t row = 0; row < batch.tokens.size(0); ++row) {
    sequence.read(start(row), window);
    std::copy(window.begin(), window.end() - 1, batch.tokens.data_ptr<std::int64_t>() + row * block_size);
    std::copy(window.begin() + 1, window.end(), batch.targets.data_ptr<std::int64_t>() + row * block_size);
  }
}

}  // namespace

Batch empty_batch(std::int64_t rows, std::int64_t block_size, at::Device device) {
  const auto options = at::TensorOptions().dtype(at::kLong).device(device);
  return {at::zeros({rows, block_size}, options), at::zeros({rows, block_size}, options)};
}

void fill_batch(const Batch& batch, const TokenSequence& sequence, const std::vector<std::uint64_t>& starts) {
  fill(batch, sequence, [&](std::int64_t row) { return starts[static_cast<std::size_t>(row)]; });
}

Batch read_batch(const TokenSequence& sequence, const std::vector<std::uint64_t>& starts, std::int64_t block_size,
                 at::Device device) {
  const Batch batch = empty_batch(static_cast<std::int64_t>(starts.size()), block_size, at::kCPU);
  fill_batch(batch, sequence, starts);
  return {batch.tokens.to(device), batch.targets.to(device)};
}

void fill_training_batch(const Batch& batch, const TokenSequence& sequence, const WindowOrder& order, std::int64_t step,
                         std::int64_t batch_size, std::int64_t first) {
  fill(batch, sequence,
       [&](std::int64_t row) { return order.start(static_cast<std::uint64_t>(step * batch_size + first + row)); });
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
