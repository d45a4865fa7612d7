// Saves any struct of an operation for its backward pass. (Tensors that the operation returns must be saved with
// save_for_backward() instead, or they and the operation would own each other.)
#pragma once

#include <torch/csrc/autograd/custom_function.h>

#include <utility>

namespace inkling {

template <typename State>
struct SavedState : torch::CustomClassHolder {
  explicit SavedState(State saved) : state(std::move(saved)) {}
  State state;
};

template <typename State>
void save_state(torch::autograd::AutogradContext* context, State state) {
  context->saved_data["state"] = c10::IValue::make_capsule(c10::make_intrusive<SavedState<State>>(std::move(state)));
}

template <typename State>
State& saved_state(torch::autograd::AutogradContext* context) {
  return static_cast<SavedState<State>&>(*context->saved_data["state"].toCapsule()).state;
}

}  // namespace inkling
