#include "model/kv_cache.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>

namespace inkling {

KeyValueCache::KeyValueCache(const GptShape& shape, std::int64_t rows, std::int64_t positions,
                             const at::TensorOptions& options)
    : lengths(at::zeros({rows}, options.dtype(at::kLong))) {
  const AttentionForm form = shape.attention();
  for (const AttentionPattern& pattern : shape.layer_patterns()) {
    const std::int64_t capacity = pattern.capacity(positions);
    const auto empty = [&] { return at::zeros({rows, form.n_kv_head, capacity, form.head_size}, options); };
    const auto ring = [&] {
      return shape.conv > 0 ? at::zeros({rows, shape.conv, shape.n_embd}, options) : at::Tensor();
    };
    layers.push_back({empty(), empty(), at::zeros({rows, shape.n_head}, options.dtype(at::kInt)), {ring(), ring()}});
  }
}

void KeyValueCache::copy_from(const KeyValueCache& other) {
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    const CachedLayer &to = layers[layer], &from = other.layers[layer];
    to.keys.copy_(from.keys);
    to.values.copy_(from.values);
    for (std::size_t i = 0; i < to.conv_inputs.size(); ++i) {
      if (to.conv_inputs[i].defined()) to.conv_inputs[i].copy_(from.conv_inputs[i]);
    }
  }
  lengths.copy_(other.lengths);
}

KeyValueCache KeyValueCache::narrow(std::int64_t first, std::int64_t count) const {
  if (count == rows()) return *this;
  KeyValueCache view;
  const auto part = [&](const at::Tensor& all) { return all.defined() ? all.narrow(0, first, count) : all; };
  for (const CachedLayer& layer : layers) {
    view.layers.push_back({part(layer.keys),
                           part(layer.values),
                           part(layer.arrivals),
                           {part(layer.conv_inputs[0]), part(layer.conv_inputs[1])}});
  }
  view.lengths = lengths.narrow(0, first, count);
  return view;
}

at::Tensor held_positions(const at::Tensor& lengths, const AttentionPattern& pattern, std::int64_t capacity) {
  const std::int64_t ring = pattern.ring(capacity);
  const at::Tensor slots = at::arange(capacity, lengths.options());
  const at::Tensor text = slots.div(ring, "floor"), place = slots.remainder(ring);
  const at::Tensor newest = (lengths.unsqueeze(1) - 1 - text).div(pattern.dilation, "floor");  // of its text
  const at::Tensor held = newest - (newest - place).remainder(ring);
  return held * pattern.dilation + text;
}

void fill(const at::Tensor& conv_inputs, const at::Tensor& x, const at::Tensor& lengths) {
  if (!conv_inputs.defined()) return;
  const std::int64_t width = conv_inputs.size(1);
  const at::Tensor held = held_positions(lengths, {.window = width}, width).clamp_min(0);
  conv_inputs.copy_(x.gather(1, held.unsqueeze(2).expand({-1, -1, x.size(2)})));
}

void fill(const CachedLayer& layer, const AttentionPattern& pattern, const Heads& heads, const at::Tensor& lengths) {
  if (pattern.is_full()) {  // nobody reads the columns after a row's end
    layer.keys.narrow(2, 0, heads.keys.size(2)).copy_(heads.keys);
    layer.values.narrow(2, 0, heads.values.size(2)).copy_(heads.values);
    return;
  }
  const at::Tensor held = held_positions(lengths, pattern, layer.keys.size(2)).clamp_min(0);
  const at::Tensor index = held.unsqueeze(1).unsqueeze(3).expand({-1, heads.keys.size(1), -1, heads.keys.size(3)});
  layer.keys.copy_(heads.keys.gather(2, index));
  layer.values.copy_(heads.values.gather(2, index));
}

}  // namespace inkling
