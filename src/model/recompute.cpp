#include "model/recompute.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include "model/saved_state.h"

namespace inkling {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

struct RecomputedState {
  TensorFunction block;
  Pass pass;  // as it was before, so that the same elements are dropped again
};

struct Recomputed : Function<Recomputed> {
  static variable_list forward(AutogradContext* context, at::TensorList in, const TensorFunction& block, Pass& pass) {
    context->set_materialize_grads(false);
    context->save_for_backward(in.vec());
    save_state(context, RecomputedState{block, pass});
    const at::NoGradGuard no_gradient;
    return block(in.vec(), pass);
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    Tensors in;
    for (const at::Tensor& saved : context->get_saved_variables()) {
      in.push_back(saved.detach().set_requires_grad(true));
    }
    auto& [block, pass] = saved_state<RecomputedState>(context);
    const at::AutoGradMode with_gradient(true);
    const Tensors out = block(in, pass);
    variable_list outputs, gradients;
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (!upstream[i].defined()) continue;  // nothing goes on from it
      outputs.push_back(out[i]);
      gradients.push_back(upstream[i]);
    }
    torch::autograd::backward(outputs, gradients);
    variable_list result;
    for (const at::Tensor& each : in) result.push_back(each.grad());
    result.resize(result.size() + 2);  // block and pass have none
    return result;
  }
};

}  // namespace

Tensors run_block(const Tensors& in, const TensorFunction& block, Pass& pass) {
  if (pass.training.recompute != Recompute::block) return block(in, pass);
  return Recomputed::apply(at::TensorList(in), block, pass);
}

}  // namespace inkling
