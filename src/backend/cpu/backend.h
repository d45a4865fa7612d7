// The CPU's backend: the loops of kernels/cpu over all threads, and LibTorch's matrix products. All arithmetic is in
// float32; the weights of a model that is not trained may be bfloat16.
#pragma once

#include "backend/backend.h"

namespace inkling {

const Backend& cpu_backend();

namespace cpu {

// Its functions, as backend/backend.h describes them.
at::Tensor embedding(const at::Tensor& tokens, const EmbeddingWeights& weights);
void embedding_backward(const at::Tensor& dout, const at::Tensor& tokens, const EmbeddingWeights& weights);

Normalized norm(const at::Tensor& x, const at::Tensor& branch, const NormWeights& weights);
at::Tensor norm_backward(const at::Tensor& dout, const at::Tensor& dsum, const Normalized& forward,
                         const NormWeights& weights);

at::Tensor linear(const at::Tensor& x, const LinearWeights& weights);
at::Tensor linear_backward(const at::Tensor& dout, const at::Tensor& x, const LinearWeights& weights);
Widened mlp(const at::Tensor& x, const MlpWeights& weights, bool repeatable);
at::Tensor mlp_backward(const at::Tensor& dout, const at::Tensor& x, const at::Tensor& pre, const at::Tensor& wide,
                        const MlpWeights& weights);

Attended attention(const at::Tensor& qkv, std::int64_t n_head, const DropoutPlace& dropout);
at::Tensor attention_backward(const at::Tensor& dout, const Attended& forward, std::int64_t n_head,
                              const DropoutPlace& dropout);

Scored head(const at::Tensor& x, const at::Tensor& targets, const Weight& table);
at::Tensor head_backward(const at::Tensor& dloss, const at::Tensor& x, const at::Tensor& gradients,
                         const Weight& table);
at::Tensor logits(const at::Tensor& x, const Weight& table);

at::Tensor dropout(const at::Tensor& x, const DropoutPlace& place);

at::Tensor decode_embedding(const at::Tensor& tokens, const at::Tensor& positions, const EmbeddingWeights& weights);
ResidualStream decode_block(const ResidualStream& in, const DecodedBlock& block);
at::Tensor decode_logits(const at::Tensor& x, const Weight& table);

at::Tensor sum_of_squares(const at::Tensor& flat);
void adamw(const AdamWRange& range, const at::Tensor& norm_squared);

// Returns the weight's value, or a float32 copy of it where it is bfloat16; undefined where there is none.
inline at::Tensor in_float32(const Weight& weight) {
  const bool widened = weight.defined() && weight.value.scalar_type() != at::kFloat;
  return widened ? weight.value.to(at::kFloat) : weight.value;
}

}  // namespace cpu
}  // namespace inkling
