#include "generate/decoder.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "base/error.h"

namespace inkling {
namespace {

constexpr std::int64_t most_rows = 16;
constexpr std::int64_t most_cache_bytes = std::int64_t{512} << 20;

at::TensorOptions cache_options(const Runtime& runtime) {
  return at::TensorOptions().device(runtime.device).dtype(runtime.activation_dtype());
}

}  // namespace

std::uint64_t context_start(std::uint64_t length, std::uint64_t block_size) {
  if (length <= block_size) return 0;
  const std::uint64_t stride = block_size + 1 - std::max<std::uint64_t>(1, block_size / 2);
  return (length - block_size + stride - 1) / stride * stride;
}

Decoder::Decoder(const Gpt& model, const Runtime& runtime, std::int64_t max_rows, bool use_cache)
    : model_(model), runtime_(runtime), max_rows_(max_rows), use_cache_(use_cache) {
  if (use_cache_) cache_ = KeyValueCache::make(model_.shape(), max_rows_, cache_options(runtime_));
}

std::int64_t Decoder::rows_together(const GptShape& shape, const Runtime& runtime) {
  if (runtime.kernels == Kernels::aten) return 1;
  const std::int64_t row_bytes = 2 * shape.n_layer * shape.n_embd * shape.block_size * std::int64_t{sizeof(float)};
  return std::clamp<std::int64_t>(most_cache_bytes / row_bytes, 1, most_rows);
}

at::Tensor Decoder::to_device(const std::vector<std::int64_t>& values) const {
  const at::Tensor host = at::empty({static_cast<std::int64_t>(values.size())}, at::kLong);
  std::copy(values.begin(), values.end(), host.data_ptr<std::int64_t>());
  return host.to(runtime_.device);
}

std::span<const Token> Decoder::context_of(std::span<const Token> text) const {
  return text.subspan(context_start(text.size(), static_cast<std::uint64_t>(model_.shape().block_size)));
}

KeyValueCache Decoder::rows_of_cache(std::int64_t first, std::int64_t count) const {
  KeyValueCache view;
  for (const CachedLayer& layer : cache_.layers) {
    view.layers.push_back({layer.keys.narrow(0, first, count), layer.values.narrow(0, first, count)});
  }
  view.lengths = cache_.lengths.narrow(0, first, count);
  return view;
}

// Everything but the last token of the context, which the next step decodes together with those of the other rows.
void Decoder::hold_all_but_last(std::size_t row, std::span<const Token> text) {
  const std::span<const Token> context = context_of(text);
  const std::uint64_t start = text.size() - context.size();
  const std::uint64_t length = context.size() - 1;
  if (row < held_.size() && held_[row].start == start && held_[row].length == length) return;
  if (row >= held_.size()) held_.resize(row + 1);
  held_[row] = {start, length};
  KeyValueCache cache = rows_of_cache(static_cast<std::int64_t>(row), 1);
  cache.lengths.zero_();
  if (length == 0) return;
  Context pass{.kernels = runtime_.kernels};
  const at::Tensor tokens = to_device({context.begin(), context.end() - 1});
  model_.prefill(tokens.unsqueeze(0), to_device({static_cast<std::int64_t>(length)}), cache, pass);
}

at::Tensor Decoder::uncached_logits(std::span<const Token> text) const {
  const std::span<const Token> context = context_of(text);
  Context pass{.kernels = runtime_.kernels};
  const at::Tensor tokens = to_device({context.begin(), context.end()});
  return model_.logits(tokens.unsqueeze(0), pass).select(1, tokens.size(0) - 1);
}

at::Tensor Decoder::next_logits(std::span<const std::span<const Token>> texts) {
  if (texts.empty() || static_cast<std::int64_t>(texts.size()) > max_rows_ || texts.size() < held_.size()) {
    throw Error::internal("the decoder was given another number of texts than it has rows");
  }
  const at::NoGradGuard no_gradient;
  at::Tensor logits;
  if (use_cache_) {
    std::vector<std::int64_t> last_tokens;
    for (std::size_t row = 0; row < texts.size(); ++row) {
      hold_all_but_last(row, texts[row]);
      last_tokens.push_back(texts[row].back());
    }
    KeyValueCache cache = rows_of_cache(0, static_cast<std::int64_t>(texts.size()));
    Context pass{.kernels = runtime_.kernels, .decoding = true};
    logits = model_.decode(to_device(last_tokens), cache, pass);
    for (Held& held : held_) ++held.length;
  } else {
    std::vector<at::Tensor> rows;
    for (const std::span<const Token> text : texts) rows.push_back(uncached_logits(text));
    logits = at::cat(rows, 0);
  }
  return logits.to(at::kCPU).to(at::kFloat).contiguous();  // bfloat16 ends here: sampling is done in double
}

void Decoder::remove(std::size_t row) {
  if (!use_cache_) return;
  const std::size_t last = held_.size() - 1;
  if (row != last) {
    const KeyValueCache to = rows_of_cache(static_cast<std::int64_t>(row), 1);
    const KeyValueCache from = rows_of_cache(static_cast<std::int64_t>(last), 1);
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
