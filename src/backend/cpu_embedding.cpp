#include <ATen/TensorOperators.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>

#include "backend/cpu_backend.h"
#include "backend/elements.h"
#include "kernels/cpu_kernels.h"
#include "runtime/parallel.h"

namespace inkling::cpu {

namespace {

at::Tensor rows_of(const Weight& table, const at::Tensor& numbers) {
  return at::embedding(table.value, numbers).to(at::kFloat);
}

}  // namespace

at::Tensor embedding(const at::Tensor& tokens, const EmbeddingWeights& weights) {
  const std::int64_t time = tokens.size(1), channels = weights.tokens.value.size(1);
  if (weights.tokens.value.scalar_type() != at::kFloat) {
    const at::Tensor rows = rows_of(weights.tokens, tokens);
    return weights.positions.defined() ? rows + weights.positions.value.narrow(0, 0, time) : rows;
  }
  const at::Tensor out =
      at::empty({tokens.size(0), time, channels}, weights.tokens.value.options().requires_grad(false));
  parallel_parts(tokens.numel(), 64, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    cpu_kernels().embedding_forward(tokens.data_ptr<std::int64_t>(), floats(weights.tokens.value),
                                    floats(weights.positions.value), floats(out), begin, end - begin, time, channels);
  });
  return out;
}

void embedding_backward(const at::Tensor& dout, const at::Tensor& tokens, const EmbeddingWeights& weights) {
  const std::int64_t channels = dout.size(2);
  float* const dtokens = floats(weights.tokens.gradient_to_add_to());
  float* const dpositions = floats(weights.positions.gradient_to_add_to());
  parallel_parts(channels, 16, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    cpu_kernels().embedding_backward(tokens.data_ptr<std::int64_t>(), floats(dout), dtokens, dpositions, tokens.numel(),
                                     tokens.size(1), channels, begin, end);
  });
}

at::Tensor decode_embedding(const at::Tensor& tokens, const at::Tensor& positions, const EmbeddingWeights& weights) {
  const at::Tensor rows = rows_of(weights.tokens, tokens);
  return (weights.positions.defined() ? rows + rows_of(weights.positions, positions) : rows).unsqueeze(1);
}

at::Tensor dropout(const at::Tensor& x, const DropoutPlace& place) {
  const at::Tensor out = x.clone(at::MemoryFormat::Contiguous);
  const std::uint64_t key = dropout_stream(place);
  const std::int64_t before = first_row(place) * (out.numel() / out.size(0));  // elements of the batch
  parallel_parts(out.numel(), 4096, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    cpu_kernels().dropout(floats(out) + begin, key, static_cast<std::uint64_t>(before + begin),
                          dropout_threshold(place.probability), dropout_scale(place.probability), end - begin);
  });
  return out;
}

}  // namespace inkling::cpu
