#include "backend/cpu_backend.h"

namespace inkling {

const Backend& cpu_backend() {
  static const Backend backend = {
      .attends = [](at::ScalarType, const AttentionForm& form, bool) { return has_kernels(form); },
      .activation_dtype = [](at::ScalarType) { return at::kFloat; },
      .embedding = cpu::embedding,
      .embedding_backward = cpu::embedding_backward,
      .norm = cpu::norm,
      .norm_backward = cpu::norm_backward,
      .conv = cpu::conv,
      .conv_backward = cpu::conv_backward,
      .linear = cpu::linear,
      .linear_backward = cpu::linear_backward,
      .mlp = cpu::mlp,
      .mlp_backward = cpu::mlp_backward,
      .norm_heads = cpu::norm_heads,
      .norm_heads_backward = cpu::norm_heads_backward,
      .rotate = cpu::rotate,
      .attention = cpu::attention,
      .attention_backward = cpu::attention_backward,
      .head = cpu::head,
      .head_backward = cpu::head_backward,
      .logits = cpu::logits,
      .dropout = cpu::dropout,
      .decode_embedding = cpu::decode_embedding,
      .decode_block = cpu::decode_block,
      .decode_logits = cpu::decode_logits,
      .sum_of_squares = cpu::sum_of_squares,
      .adamw = cpu::adamw,
      .muon = cpu::muon,
  };
  return backend;
}

}  // namespace inkling
