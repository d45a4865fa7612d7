// The GPU's backend: the kernels of kernels/cuda, cublasLt's products and LibTorch's attention, in float32 and bfloat16
// with the gradients of weights in float32.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <functional>

#include "backend/backend.h"
#include "backend/elements.h"
#include "kernels/cuda_kernels.h"

namespace inkling::cuda {

// The stream that work is queued on, and recordings of such work.

Stream current_stream();

// As Backend::record.
std::function<void()> record(int family, const std::function<void()>& work);

// Returns the backend. The tests call it with products and graphs of their own (current_stream(), record(),
// cuda_products.h), and with kernels that run on the CPU.
Backend backend();

// Its functions, as backend/backend.h describes them.
FunctionOf<&Backend::embedding> embedding;
FunctionOf<&Backend::embedding_backward> embedding_backward;
FunctionOf<&Backend::norm> norm;
FunctionOf<&Backend::norm_backward> norm_backward;
FunctionOf<&Backend::conv> conv;
FunctionOf<&Backend::conv_backward> conv_backward;
FunctionOf<&Backend::linear> linear;
FunctionOf<&Backend::linear_backward> linear_backward;
FunctionOf<&Backend::mlp> mlp;
FunctionOf<&Backend::mlp_backward> mlp_backward;
FunctionOf<&Backend::norm_heads> norm_heads;
FunctionOf<&Backend::norm_heads_backward> norm_heads_backward;
FunctionOf<&Backend::rotate> rotate;
FunctionOf<&Backend::attends> attends;
FunctionOf<&Backend::attention> attention;
FunctionOf<&Backend::attention_backward> attention_backward;
FunctionOf<&Backend::head> head;
FunctionOf<&Backend::head_backward> head_backward;
FunctionOf<&Backend::logits> logits;
FunctionOf<&Backend::dropout> dropout;
FunctionOf<&Backend::decode_embedding> decode_embedding;
FunctionOf<&Backend::decode_block> decode_block;
FunctionOf<&Backend::decode_logits> decode_logits;
FunctionOf<&Backend::draw> draw;
FunctionOf<&Backend::sum_of_squares> sum_of_squares;
FunctionOf<&Backend::adamw> adamw;
FunctionOf<&Backend::muon> muon;

// The convolution of one more token, x [B, 1, C], of texts of these lengths, int64 [B], whose last inputs lie in a ring
// [B, K, C].
at::Tensor conv_cached(const at::Tensor& x, const at::Tensor& inputs, const Weight& weight, const at::Tensor& lengths);

// Returns activation(pre) [..., F]. pre: [..., F], or twice as wide where it is gated.
at::Tensor activated(const at::Tensor& pre, Activation activation);

// Whether cuDNN's attention can compute this; it is used where results need not be deterministic. Some of its kernels
// round the probability of dropout to sixteenths, and none takes a single position.
bool cudnn_attends(std::int64_t time, double dropout);

// Finds the kernels that compute with a tensor.

// Calls body(kernels, element) with the kernels for the dtype of `like`, and a value of their Element.
template <typename Body>
void with_kernels(const at::Tensor& like, const Body& body) {
  if (like.scalar_type() == at::kFloat) {
    body(cuda_kernels<float>(), float{});
  } else {
    body(cuda_kernels<BFloat16>(), BFloat16{});
  }
}

// Returns `count` floats for a kernel to work with, on the device of x.
inline at::Tensor scratch(const at::Tensor& x, std::int64_t count) {
  return at::empty({count}, x.options().dtype(at::kFloat).requires_grad(false));
}

}  // namespace inkling::cuda
