// FlashAttention and cuDNN's attention, which have no twin on the CPU.
#pragma once

#include <ATen/core/stack.h>

#include <string>

namespace software_gpu {

// Computes the operation of this name in float32, by the formula and its gradient, if it is one of them: takes its
// arguments off the stack and leaves its results there. Dropout is left out.
bool attend(const std::string& name, torch::jit::Stack& stack);

}  // namespace software_gpu
