// A model's weights as operations see them: views into the parameter arena.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

#include "kernels/kernel_settings.h"

namespace inkling {

struct Weight {
  at::Tensor value = {};     // undefined where the model has none (bias: false)
  at::Tensor gradient = {};  // of the value's shape, in its dtype or float32; undefined in a model that is not trained
  bool* is_fresh = nullptr;  // in the arena: true while no pass has written this gradient since begin_gradients()

  bool defined() const { return value.defined(); }

  // Begins to write the gradient: returns the beta of gradient = beta * gradient + …, which is 0 for the first writer
  // since begin_gradients(), so that what stands there is not even read, and 1 for every later one. A Weight is a view;
  // what this changes is the arena's.
  double begin_write() const { return is_fresh != nullptr && std::exchange(*is_fresh, false) ? 0.0 : 1.0; }

  // Returns the gradient for loops that can only add, set to zero if begin_write() is 0. Undefined if there is none.
  const at::Tensor& gradient_to_add_to() const {
    if (gradient.defined() && begin_write() == 0.0) gradient.zero_();
    return gradient;
  }
};

struct LinearWeights {
  Weight weight;  // [in, out], as in Hugging Face's Conv1D
  Weight bias;    // [out] or undefined
};

struct NormWeights {
  Weight weight;  // [C]; ones without a gradient where the model has none
  Weight bias;    // [C] or undefined
  NormForm form = {};
};

struct MlpWeights {
  LinearWeights c_fc;    // [C, F], or [C, 2 F] for a gated activation
  LinearWeights c_proj;  // [F, C]
  Activation activation = Activation::gelu_tanh;
};

struct EmbeddingWeights {
  Weight tokens;     // [V, C]
  Weight positions;  // [block_size, C] or undefined
};

struct BlockWeights {
  NormWeights ln_1;
  Weight conv_1;         // [K, C], behind ln_1, or undefined
  LinearWeights c_attn;  // [C, AttentionForm::packed()]: queries, keys and values of all heads side by side
  NormWeights q_norm;    // [D], of each query, or undefined
  NormWeights k_norm;    // [D], of each key, or undefined
  LinearWeights c_proj;  // [H D, C]
  NormWeights ln_2;
  Weight conv_2;  // [K, C], behind ln_2, or undefined
  MlpWeights mlp;
};

}  // namespace inkling
