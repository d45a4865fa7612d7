#include "model/kv_cache.h"

#include <ATen/ops/zeros.h>

namespace inkling {

KeyValueCache::KeyValueCache(const GptShape& shape, std::int64_t rows, std::int64_t positions,
                             const at::TensorOptions& options)
    : lengths(at::zeros({rows}, options.dtype(at::kLong))) {
  const AttentionForm form = shape.attention();
  const auto empty = [&] { return at::zeros({rows, form.n_kv_head, positions, form.head_size}, options); };
  for (std::int64_t layer = 0; layer < shape.n_layer; ++layer) {
    layers.push_back({empty(), empty(), at::zeros({rows, shape.n_head}, options.dtype(at::kInt))});
  }
}

KeyValueCache KeyValueCache::narrow(std::int64_t first, std::int64_t count) const {
  if (count == rows()) return *this;
  KeyValueCache view;
  for (const CachedLayer& layer : layers) {
    view.layers.push_back({layer.keys.narrow(0, first, count), layer.values.narrow(0, first, count),
                           layer.arrivals.narrow(0, first, count)});
  }
  view.lengths = lengths.narrow(0, first, count);
  return view;
}

void fill(const CachedLayer& layer, const Heads& heads) {
  layer.keys.narrow(2, 0, heads.keys.size(2)).copy_(heads.keys);
  layer.values.narrow(2, 0, heads.values.size(2)).copy_(heads.values);
}

}  // namespace inkling
