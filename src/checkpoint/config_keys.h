// The keys of config.json: which of them shape a model, family by family.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/model_config.h"
#include "config/model_shape.h"
#include "formats/json.h"

namespace inkling {

enum class KeyUse {
  read,    // read_model_config() uses its value, or refuses it
  fixed,   // refused unless it is null or has the one value that inkling computes
  nothing  // shapes nothing that inkling computes
};

struct ConfigKey {
  std::string_view name;
  std::string_view families;  // g: GPT-2, l: Llama, m: Mistral, 2: Qwen2, q: Qwen3, i: inkling's own
  KeyUse use;
  std::string_view value = {};  // of a fixed one, as JSON
  std::string_view other = {};  // what its other values mean
};

// Those that mean something in some family. What means nothing in any is known too, by its name alone.
std::span<const ConfigKey> config_keys();

char letter_of(Family family);  // in ConfigKey::families

// Throws Error input naming a fixed key that has another value. Returns the keys that the family is not known to have;
// a key that is null counts as absent.
std::vector<std::string> check_config_keys(const JsonFields& config, Family family);

// Hugging Face's names for activations.
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
