// What LibTorch's CPU half has no twin of: attention in one kernel, and the backward pass of the fused RMSNorm.
#pragma once

#include <ATen/core/stack.h>

#include <string>

namespace software_gpu {

// Computes the operation of this name by its formula in float32, if it is one of them: takes its arguments off the
// stack and leaves its results there. Attention leaves its dropout out.
bool compute_twin(const std::string& name, torch::jit::Stack& stack);

// Calls FlashAttention where this is cuDNN's attention, which the GPU in software has not got; likewise.
bool call_instead(const std::string& name, torch::jit::Stack& stack);

}  // namespace software_gpu
