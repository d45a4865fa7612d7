// What an operation keeps for its backward pass beside tensors: any struct.
#pragma once

#include <torch/csrc/autograd/custom_function.h>

#include <utility>

namespace inkling {

template <typename State>
struct Kept : torch::CustomClassHolder {
  explicit Kept(State kept_state) : state(std::move(kept_state)) {}
  State state;
};

template <typename State>
void keep(torch::autograd::AutogradContext* context, State state) {
  context->saved_data["kept"] = c10::IValue::make_capsule(c10::make_intrusive<Kept<State>>(std::move(state)));
}

// The State that keep() was given.
template <typename State>
State& kept(torch::autograd::AutogradContext* context) {
  return static_cast<Kept<State>&>(*context->saved_data["kept"].toCapsule()).state;
}

}  // namespace inkling
