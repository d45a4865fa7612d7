// A model's weights as operations see them: views into the parameter arena.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

#include "kernels/kernel_settings.h"

namespace inkling {

struct Weight {
  at::Tensor value = {};  // undefined where the model has none (bias: false)
  at::Tensor gradient =
      {};  // the same shape; of the value's dtype or float32; undefined in a model that is not trained
  bool* is_fresh = nullptr;  // the arena's note that no pass has written this gradient since begin_gradients()

  bool defined() const { return value.defined(); }

  // For gradient = beta * gradient + …: 0 for the first who asks since begin_gradients(), so that what stands there is
  // not even read; 1 for everyone after that.
  double take_beta() const { return is_fresh != nullptr && std::exchange(*is_fresh, false) ? 0.0 : 1.0; }

  // For loops that can only add: the gradient, set to zero first where take_beta() is 0. Undefined where there is none.
  const at::Tensor& gradient_to_add_to() const {
    if (gradient.defined() && take_beta() == 0.0) gradient.zero_();
    return gradient;
  }
};

struct LinearWeights {
  Weight weight;  // [in, out], as in Hugging Face's Conv1D
  Weight bias;    // [out] or undefined
};

struct NormWeights {
  Weight weight;  // [C]
  Weight bias;    // [C] or undefined
};

struct MlpWeights {
  LinearWeights c_fc;    // [C, 4C]
  LinearWeights c_proj;  // [4C, C]
  GeluForm gelu = GeluForm::tanh;
};

struct EmbeddingWeights {
  Weight tokens;     // [V, C]
  Weight positions;  // [block_size, C]
};

struct BlockWeights {
  NormWeights ln_1;
  LinearWeights c_attn;  // [C, 3C]: queries, keys and values of all heads side by side
  LinearWeights c_proj;  // [C, C]
  NormWeights ln_2;
  MlpWeights mlp;
};

}  // namespace inkling
