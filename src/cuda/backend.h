// The GPU's backend: the kernels of kernels/cuda, cublasLt's products and LibTorch's attention, in float32 and bfloat16
// with the gradients of weights in float32.
#pragma once

#include "backend/backend.h"

namespace inkling::cuda {

// Returns the backend. The tests call it with products and graphs of their own (cuda/products.h, cuda/graphs.h), and
// with kernels that run on the CPU.
Backend backend();

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
// Whether cuDNN's attention can compute this; it is used where results need not be deterministic. Some of its kernels
// round the probability of dropout to sixteenths, and none takes a single position.
bool cudnn_attends(std::int64_t time, double dropout);

bool keeps_probabilities(at::ScalarType dtype, std::int64_t head_size);

Scored head(const at::Tensor& x, const at::Tensor& targets, const Weight& table);
at::Tensor head_backward(const at::Tensor& dloss, const at::Tensor& x, const at::Tensor& gradients,
                         const Weight& table);
at::Tensor logits(const at::Tensor& x, const Weight& table);

at::Tensor dropout(const at::Tensor& x, const DropoutPlace& place);

at::Tensor decode_embedding(const at::Tensor& tokens, const at::Tensor& positions, const EmbeddingWeights& weights);
ResidualStream decode_block(const ResidualStream& in, const DecodedBlock& block);
at::Tensor decode_logits(const at::Tensor& x, const Weight& table);
void draw(const at::Tensor& logits, const DrawState& state, const SamplingSettings& settings, std::int64_t vocab_size);

at::Tensor sum_of_squares(const at::Tensor& flat);
void adamw(const AdamWRange& range, const at::Tensor& norm_squared);

}  // namespace inkling::cuda
