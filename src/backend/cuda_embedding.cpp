#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "backend/cuda_backend.h"
#include "backend/elements.h"

namespace inkling::cuda {

namespace {

// positions may be undefined: then that of row n is n % time.
at::Tensor rows_of_both(const at::Tensor& tokens, const at::Tensor& positions, std::int64_t time,
                        const EmbeddingWeights& weights) {
  const at::Tensor& table = weights.tokens.value;
  const std::int64_t channels = table.size(1);
  const at::Tensor out = at::empty({tokens.numel() / time, time, channels}, table.options().requires_grad(false));
  with_kernels(table, [&](const auto& kernels, auto element) {
    using Element = decltype(element);
    kernels.embedding_forward(elements<std::int64_t>(tokens), elements<std::int64_t>(positions),
                              elements<Element>(table), elements<Element>(weights.positions.value),
                              elements<Element>(out), tokens.numel(), time, channels, current_stream());
  });
  return out;
}

}  // namespace

at::Tensor embedding(const at::Tensor& tokens, const EmbeddingWeights& weights) {
  return rows_of_both(tokens, {}, tokens.size(1), weights);
}

at::Tensor decode_embedding(const at::Tensor& tokens, const at::Tensor& positions, const EmbeddingWeights& weights) {
  return rows_of_both(tokens.contiguous(), positions.contiguous(), 1, weights);
}

void embedding_backward(const at::Tensor& dout, const at::Tensor& tokens, const EmbeddingWeights& weights) {
  const std::int64_t channels = dout.size(2);
  float* const dtokens = floats(weights.tokens.gradient_to_add_to());
  float* const dpositions = floats(weights.positions.gradient_to_add_to());
  const auto [sorted, order] = tokens.flatten().sort(true /* stable */, 0, false);
  with_kernels(dout, [&](const auto& kernels, auto element) {
    kernels.embedding_backward(elements<std::int64_t>(sorted), elements<std::int64_t>(order),
                               elements<decltype(element)>(dout), dtokens, dpositions,
                               floats(scratch(dout, embedding_scratch(tokens.numel(), channels))), tokens.numel(),
                               tokens.size(1), channels, current_stream());
  });
}

at::Tensor dropout(const at::Tensor& x, const DropoutPlace& place) {
  const at::Tensor in = x.contiguous();
  const at::Tensor out = at::empty_like(in);
  with_kernels(in, [&](const auto& kernels, auto element) {
    using Element = decltype(element);
    kernels.dropout(elements<Element>(in), elements<Element>(out), elements<std::uint64_t>(place.key), place.place,
                    dropout_threshold(place.probability), dropout_scale(place.probability), in.numel(),
                    in.numel() / in.size(0), current_stream());
  });
  return out;
}

}  // namespace inkling::cuda
