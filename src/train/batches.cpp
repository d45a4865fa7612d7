#include "train/batches.h"

#include <ATen/ops/zeros.h>

#include <algorithm>

#include "backend/backend.h"

namespace inkling {

std::vector<at::Tensor> Batch::tensors() const {
  std::vector<at::Tensor> all = {tokens, targets};
  if (positions.defined()) all.push_back(positions);
  return all;
}

Batch Batch::first_rows(std::int64_t count) const {
  const auto part = [count](const at::Tensor& of) { return of.defined() ? of.narrow(0, 0, count) : of; };
  return {part(tokens), part(targets), part(positions)};
}

Batch empty_batch(std::int64_t rows, std::int64_t block_size, at::Device device, bool has_positions) {
  const auto options = at::TensorOptions().dtype(at::kLong).device(device);
  const auto empty = [&] { return at::zeros({rows, block_size}, options); };
  return {empty(), empty(), has_positions ? empty() : at::Tensor()};
}

void fill_batch(const Batch& batch, const TokenSequence& sequence, std::span<const Row> rows,
                std::optional<Token> separator) {
  const auto block_size = static_cast<std::uint64_t>(batch.tokens.size(1));
  auto* tokens = batch.tokens.data_ptr<std::int64_t>();
  auto* targets = batch.targets.data_ptr<std::int64_t>();
  auto* positions = separator ? batch.positions.data_ptr<std::int64_t>() : nullptr;
  std::vector<Token> window;
  for (const Row& row : rows) {
    std::uint64_t missing = block_size;
    for (const TokenRange& range : row) {
      window.resize(range.count + 1);
      sequence.read(range.first, window);
      tokens = std::copy(window.begin(), window.end() - 1, tokens);
      targets = std::copy(window.begin() + 1, window.end(), targets);
      missing -= range.count;
      if (!separator) continue;
      for (std::uint64_t i = 0, position = 0; i < range.count; ++i, ++position) {
        if (window[i] == *separator) position = 0;
        *positions++ = static_cast<std::int64_t>(position);
      }
    }
    if (missing == 0) continue;
    tokens = std::fill_n(tokens, missing, std::int64_t{separator.value()});
    targets = std::fill_n(targets, missing, not_scored);
    for (std::uint64_t i = 0; i < missing; ++i) *positions++ = static_cast<std::int64_t>(i);
  }
}

std::vector<Row> training_rows(const TrainingWindows& windows, std::int64_t step, std::int64_t batch_size) {
  std::vector<Row> rows;
  for (std::int64_t row = 0; row < batch_size; ++row) {
    rows.push_back(windows.window(static_cast<std::uint64_t>(step * batch_size + row)));
  }
  return rows;
}

std::uint64_t scored_targets(std::span<const Row> rows) {
  std::uint64_t scored = 0;
  for (const Row& row : rows) {
    for (const TokenRange& range : row) scored += range.count;
  }
  return scored;
}

std::vector<Row> evaluation_rows(std::uint64_t token_count, std::int64_t block_size, std::int64_t count) {
  const auto inputs = static_cast<std::uint64_t>(block_size);
  const std::uint64_t last = token_count - inputs - 1;
  const auto wanted = std::min<std::uint64_t>(static_cast<std::uint64_t>(count), last + 1);
  std::vector<Row> rows;
  for (std::uint64_t i = 0; i < wanted; ++i) {
    // last * i / wanted, in two parts so that no product overflows
    rows.push_back({{last / wanted * i + last % wanted * i / wanted, inputs}});
  }
  return rows;
}

}  // namespace inkling
