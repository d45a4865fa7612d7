// One more token: Gpt with a cache of keys and values.
#include <ATen/record_function.h>

#include "model/gpt.h"
#include "ops/operations.h"

namespace inkling {

void Gpt::prefill(const at::Tensor& tokens, const at::Tensor& lengths, KeyValueCache& cache) const {
  Pass pass{backend()};
  ResidualStream stream = embed(tokens, pass);
  for (std::size_t layer = 0; layer < weights_.blocks.size(); ++layer) {
    const at::Tensor qkv = linear(stream.normed, weights_.blocks[layer].c_attn, pass);
    fill(cache.layers[layer], qkv, shape().n_head);
    stream = behind_attention(stream.x, attention(qkv, shape().n_head, pass), layer, pass);
  }
  cache.lengths.copy_(lengths);
}

at::Tensor Gpt::decode(const at::Tensor& tokens, KeyValueCache& cache) const {
  const at::Tensor x = backend().decode_embedding(tokens, cache.lengths, weights_.embedding);
  ResidualStream stream = {x, backend().norm(x, {}, weights_.blocks.front().ln_1).out};
  for (std::size_t layer = 0; layer < weights_.blocks.size(); ++layer) {
    RECORD_FUNCTION("decode_block", std::vector<c10::IValue>());
    stream = backend().decode_block(stream, {.weights = weights_.blocks[layer],
                                             .next_norm = weights_.norm_behind(layer),
                                             .n_head = shape().n_head,
                                             .cache = cache.layers[layer],
                                             .lengths = cache.lengths});
  }
  cache.lengths.add_(1);
  RECORD_FUNCTION("decode_logits", std::vector<c10::IValue>());
  return backend().decode_logits(stream.normed.squeeze(1), weights_.embedding.tokens);
}

}  // namespace inkling
