#include "generate/cached_texts.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>

#include "base/error.h"

namespace inkling {
namespace {

template <typename Number>
at::Tensor copied(std::span<const Number> numbers, at::Device device) {
  const at::Tensor host = at::empty({static_cast<std::int64_t>(numbers.size())}, at::kLong);
  std::copy(numbers.begin(), numbers.end(), host.data_ptr<std::int64_t>());
  return host.to(device);
}

}  // namespace

at::Tensor to_device(std::span<const std::int64_t> numbers, at::Device device) { return copied(numbers, device); }
at::Tensor to_device(std::span<const Token> tokens, at::Device device) { return copied(tokens, device); }

std::uint64_t context_start(std::uint64_t length, std::uint64_t block_size) {
  if (length <= block_size) return 0;
  const std::uint64_t stride = block_size + 1 - std::max<std::uint64_t>(1, block_size / 2);
  return (length - block_size + stride - 1) / stride * stride;
}

std::span<const Token> context_of(std::span<const Token> text, const GptShape& shape) {
  if (shape.is_endless()) return text;
  return text.subspan(context_start(text.size(), static_cast<std::uint64_t>(shape.block_size)));
}

std::span<const Token> penalized_tokens(std::span<const Token> text, const GptShape& shape) {
  const std::span<const Token> context = context_of(text, shape);
  return context.last(std::min(context.size(), static_cast<std::size_t>(shape.block_size)));
}

std::int64_t longest_context(const GptShape& shape, std::int64_t longest) {
  return shape.is_endless() ? longest : std::min(shape.block_size, longest);
}

CachedTexts::CachedTexts(const Model& model, std::int64_t max_rows, std::int64_t longest,
                         const at::TensorOptions& options)
    : model_(model), cache_(model.shape(), max_rows, longest_context(model.shape(), longest), options) {}

void CachedTexts::prefill_if_stale(std::size_t row, std::span<const Token> text) {
  const std::span<const Token> context = context_of(text, model_.shape());
  const std::uint64_t start = text.size() - context.size();
  const std::uint64_t length = context.size() - 1;
  if (row < held_.size() && held_[row].start == start && held_[row].length == length) return;
  if (row >= held_.size()) held_.resize(row + 1);
  held_[row] = {start, length};
  KeyValueCache cache = only(row);
  cache.lengths.zero_();
  if (length == 0) return;
  const at::Device device = cache.lengths.device();
  const std::array lengths = {static_cast<std::int64_t>(length)};
  model_.prefill(to_device(context.first(length), device).unsqueeze(0), to_device(lengths, device), cache);
}

void CachedTexts::check_texts(std::size_t texts) const {
  if (texts > 0 && texts >= count() && texts <= static_cast<std::size_t>(cache_.rows())) return;
  throw Error::internal("the decoder was given another number of texts than it has rows");
}

void CachedTexts::grow() {
  for (Held& held : held_) ++held.length;
}

void CachedTexts::remove(std::size_t row) {
  const std::size_t last = held_.size() - 1;
  if (row != last) {
    only(row).copy_from(only(last));
    held_[row] = held_[last];
  }
  held_.pop_back();
}

}  // namespace inkling
