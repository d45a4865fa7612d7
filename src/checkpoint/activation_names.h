// Hugging Face's names for activations.
#pragma once

#include <string_view>

#include "config/model_shape.h"

namespace inkling {

struct NamedActivation {
  std::string_view name;
  Activation activation;
};
// The first name of an activation is the one that is written.
inline constexpr NamedActivation plain_activations[] = {
    {"gelu_new", Activation::gelu_tanh},         {"gelu_pytorch_tanh", Activation::gelu_tanh},
    {"gelu_fast", Activation::gelu_tanh},        {"gelu_accurate", Activation::gelu_tanh},
    {"gelu_python_tanh", Activation::gelu_tanh}, {"gelu", Activation::gelu},
    {"gelu_python", Activation::gelu},           {"relu", Activation::relu},
    {"relu2", Activation::relu_squared}};
// The gated ones are named by what is done to the gates.
inline constexpr NamedActivation gated_activations[] = {{"silu", Activation::swiglu},
                                                        {"swish", Activation::swiglu},
                                                        {"gelu", Activation::geglu},
                                                        {"gelu_python", Activation::geglu}};

}  // namespace inkling
