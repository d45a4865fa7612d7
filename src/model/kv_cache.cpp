#include "model/kv_cache.h"

#include <ATen/ops/zeros.h>

namespace inkling {

KeyValueCache::KeyValueCache(const GptShape& shape, std::int64_t rows, const at::TensorOptions& options)
    : lengths(at::zeros({rows}, options.dtype(at::kLong))) {
  const auto positions = [&] {
    return at::zeros({rows, shape.n_head, shape.block_size, shape.n_embd / shape.n_head}, options);
  };
  for (std::int64_t layer = 0; layer < shape.n_layer; ++layer) {
    layers.push_back({positions(), positions(), at::zeros({rows, shape.n_head}, options.dtype(at::kInt))});
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

at::Tensor heads(const at::Tensor& qkv, std::int64_t n_head, std::int64_t part) {
  const std::int64_t head_size = qkv.size(2) / 3 / n_head;
  return qkv.view({qkv.size(0), qkv.size(1), 3, n_head, head_size}).select(2, part).transpose(1, 2);
}

void fill(const CachedLayer& layer, const at::Tensor& qkv, std::int64_t n_head) {
  layer.keys.narrow(2, 0, qkv.size(1)).copy_(heads(qkv, n_head, 1));
  layer.values.narrow(2, 0, qkv.size(1)).copy_(heads(qkv, n_head, 2));
}

}  // namespace inkling
