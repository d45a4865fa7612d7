// GPT-2 the plain way, from the operations of oracle/ops.h and weights under their Hugging Face names.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>

#include "tests/oracle/ops.h"

namespace inkling::oracle {

using Weights = std::map<std::string, at::Tensor>;  // names as in "h.0.attn.c_attn.weight"; a bias may be missing

struct Gpt {
  std::int64_t n_layer = 0;
  AttentionForm form = {};
  bool exact_gelu = false;
  Dropout dropout = {};

  at::Tensor logits(const Weights& weights, const at::Tensor& tokens) const;  // [B, T] -> [B, T, V]
  at::Tensor loss(const Weights& weights, const at::Tensor& tokens, const at::Tensor& targets) const;  // nats per token
};

}  // namespace inkling::oracle
