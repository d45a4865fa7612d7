#include "backend/cuda_backend.h"

#include "backend/cuda_backend.h"
#include "kernels/cuda_kernels.h"

namespace inkling::cuda {

Backend backend() {
  return {.queues = true,
          .repeats_dropout = false,  // FlashAttention draws its own numbers
          .most_channels = longest_norm,
          .most_head_channels = largest_cached_head,
          .attends = attends,
          .activation_dtype = [](at::ScalarType weights) { return weights; },
          .embedding = embedding,
          .embedding_backward = embedding_backward,
          .norm = norm,
          .norm_backward = norm_backward,
          .conv = conv,
          .conv_backward = conv_backward,
          .linear = linear,
          .linear_backward = linear_backward,
          .mlp = mlp,
          .mlp_backward = mlp_backward,
          .norm_heads = norm_heads,
          .norm_heads_backward = norm_heads_backward,
          .rotate = rotate,
          .attention = attention,
          .attention_backward = attention_backward,
          .head = head,
          .head_backward = head_backward,
          .logits = logits,
          .dropout = dropout,
          .decode_embedding = decode_embedding,
          .decode_block = decode_block,
          .decode_logits = decode_logits,
          .draw = draw,
          .sum_of_squares = sum_of_squares,
          .adamw = adamw,
          .muon = muon,
          .record = record};
}

}  // namespace inkling::cuda

// The one symbol of libinkling_cuda.so.
extern "C" __attribute__((visibility("default"))) const inkling::Backend& inkling_cuda_backend() {
  static const inkling::Backend backend = inkling::cuda::backend();
  return backend;
}
