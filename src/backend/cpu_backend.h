// The CPU's backend: the loops of kernels/cpu over all threads, and LibTorch's matrix products. All arithmetic is in
// float32; the weights of a model that is not trained may be bfloat16.
#pragma once

#include "backend/backend.h"

namespace inkling {

const Backend& cpu_backend();

namespace cpu {

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
FunctionOf<&Backend::attention> attention;
FunctionOf<&Backend::attention_backward> attention_backward;
FunctionOf<&Backend::head> head;
FunctionOf<&Backend::head_backward> head_backward;
FunctionOf<&Backend::logits> logits;
FunctionOf<&Backend::dropout> dropout;
FunctionOf<&Backend::decode_embedding> decode_embedding;
FunctionOf<&Backend::decode_block> decode_block;
FunctionOf<&Backend::decode_logits> decode_logits;
FunctionOf<&Backend::sum_of_squares> sum_of_squares;
FunctionOf<&Backend::adamw> adamw;
FunctionOf<&Backend::muon> muon;

// Returns the weight's value, or a float32 copy of it where it is bfloat16; undefined where there is none.
inline at::Tensor in_float32(const Weight& weight) {
  const bool widened = weight.defined() && weight.value.scalar_type() != at::kFloat;
  return widened ? weight.value.to(at::kFloat) : weight.value;
}

}  // namespace cpu
}  // namespace inkling
