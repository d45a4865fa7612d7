#include "generate/cached_rows.h"

#include <array>

#include "base/error.h"
#include "generate/context_rule.h"

namespace inkling {

CachedRows::CachedRows(const Gpt& model, const Runtime& runtime, std::int64_t max_rows)
    : model_(model),
      runtime_(runtime),
      cache_(model.shape().n_layer, max_rows, model.shape().n_head, model.shape().block_size,
             model.shape().n_embd / model.shape().n_head,
             at::TensorOptions().device(runtime.device).dtype(runtime.activation_dtype())) {}

KeyValueCache CachedRows::rows(std::int64_t first, std::int64_t count) const {
  if (count == cache_.lengths.size(0)) return cache_;
  KeyValueCache view;
  for (const CachedLayer& layer : cache_.layers) {
    view.layers.push_back({layer.keys.narrow(0, first, count), layer.values.narrow(0, first, count),
                           layer.arrivals.narrow(0, first, count)});
  }
  view.lengths = cache_.lengths.narrow(0, first, count);
  return view;
}

bool CachedRows::hold_all_but_last(std::size_t row, std::span<const Token> text) {
  const std::span<const Token> context = context_of(text, model_.shape().block_size);
  const std::uint64_t start = text.size() - context.size();
  const std::uint64_t length = context.size() - 1;
  if (row < held_.size() && held_[row].start == start && held_[row].length == length) return false;
  if (row >= held_.size()) held_.resize(row + 1);
  held_[row] = {start, length};
  KeyValueCache cache = rows(static_cast<std::int64_t>(row), 1);
  cache.lengths.zero_();
  if (length == 0) return true;
  Context pass{.kernels = runtime_.kernels};
  const at::Tensor tokens = to_device(context.first(length), runtime_.device);
  model_.prefill(tokens.unsqueeze(0), to_device(std::array{length}, runtime_.device), cache, pass);
  return true;
}

void CachedRows::check_texts(std::size_t texts) const {
  const auto most = static_cast<std::size_t>(cache_.lengths.size(0));
  if (texts > 0 && texts >= count() && texts <= most) return;
  throw Error::internal("the decoder was given another number of texts than it has rows");
}

void CachedRows::grow() {
  for (Held& held : held_) ++held.length;
}

void CachedRows::remove(std::size_t row) {
  const std::size_t last = held_.size() - 1;
  if (row != last) {
    const KeyValueCache to = rows(static_cast<std::int64_t>(row), 1);
    const KeyValueCache from = rows(static_cast<std::int64_t>(last), 1);
    for (std::size_t layer = 0; layer < to.layers.size(); ++layer) {
      to.layers[layer].keys.copy_(from.layers[layer].keys);
      to.layers[layer].values.copy_(from.layers[layer].values);
    }
    to.lengths.copy_(from.lengths);
    held_[row] = held_[last];
  }
  held_.pop_back();
}

}  // namespace inkling
