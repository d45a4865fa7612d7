// What the CPU loops and their CUDA twins take beside arrays. C++17: nvcc reads it too.
#pragma once

namespace inkling {

enum class GeluForm { tanh, exact };

// One AdamW step; bias_correction1 = 1 - beta1^t, bias_correction2 = 1 - beta2^t. The gradient is scaled by clip first.
struct AdamWSettings {
  float learning_rate, beta1, beta2, epsilon, weight_decay, clip, bias_correction1, bias_correction2;
};

}  // namespace inkling
