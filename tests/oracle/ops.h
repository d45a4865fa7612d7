// Every operation written the plain way: ATen calls that read like the formula, gradients by ATen's autograd, any
// device and any floating dtype. Nothing here includes src/ops; these are what src/ops is judged by.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "kernels/kernel_settings.h"

namespace inkling::oracle {

// Dropout by docs/formats.md: the place counts up with every use, and element i of a place is dropped where the top
// 32 of its random bits are below probability * 2^32.
struct Dropout {
  double probability = 0.0;
  std::uint64_t key = 0;
  std::uint64_t place = 0;

  at::Tensor operator()(const at::Tensor& x);
};

// tokens: int64 [B, T] -> [B, T, C]
at::Tensor embedding(const at::Tensor& tokens, const at::Tensor& token_table, const at::Tensor& position_table);

// bias may be undefined, here and below.
at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);
at::Tensor gelu(const at::Tensor& x, bool exact);

// qkv: [B, T, form.packed()] -> [B, T, H D]. Position t sees positions 0..t.
at::Tensor causal_attention(const at::Tensor& qkv, const AttentionForm& form, Dropout& dropout);

// The mean of -log softmax(logits)[target] over the targets that are not -1. logits: [..., V]; targets: [...].
at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets);

}  // namespace inkling::oracle
