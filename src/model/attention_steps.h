// Attention step by step, for those who want to see it: the reference model, watched.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "config/model_shape.h"
#include "model/arena.h"

namespace inkling {

// What one head computes for texts of T tokens, with D channels.
struct AttentionSteps {
  at::Tensor queries = {}, keys = {};  // [B, 1, T, D], as they meet: after their norms and turns
  at::Tensor values = {};              // [B, 1, T, D]
  at::Tensor scores = {};   // [B, 1, T, T]: q_i k_j / sqrt(D), less ALiBi's fall; -infinity: token i may not look
  at::Tensor weights = {};  // [B, 1, T, T]: the softmax of each row of scores
  at::Tensor sums = {};     // [B, 1, T, D]: weights times values
};

// Is called for every head, in the order of layers and heads. Heads that share keys and values are shown the same ones.
using AttentionWatcher = std::function<void(std::int64_t layer, std::int64_t head, const AttentionSteps& steps)>;

// Returns the logits that the reference model over these weights gives, made from what the watcher sees. tokens: int64
// [B, T], T <= block_size -> [B, T, V], in the dtype of the weights.
at::Tensor watched_logits(const GptShape& shape, const ParameterArena& arena, const at::Tensor& tokens,
                          const AttentionWatcher& watch);

}  // namespace inkling
