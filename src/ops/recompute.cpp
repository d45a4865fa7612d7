#include "ops/recompute.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include "ops/kept.h"

namespace inkling {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

struct Recomputed : Function<Recomputed> {
  struct Body {
    TwoToTwo body;
    Context context;  // as it was: the same dropout again
  };

  static variable_list forward(AutogradContext* saved, const at::Tensor& first, const at::Tensor& second,
                               const TwoToTwo& body, Context& context) {
    saved->set_materialize_grads(false);
    saved->save_for_backward({first, second});
    keep(saved, Body{body, context});
    const at::NoGradGuard no_gradient;
    const TwoTensors out = body({first, second}, context);
    return {out.first, out.second};
  }

  static variable_list backward(AutogradContext* saved, const variable_list& upstream) {
    const auto inputs = saved->get_saved_variables();
    Body& again = kept<Body>(saved);
    const at::Tensor first = inputs[0].detach().set_requires_grad(true);
    const at::Tensor second = inputs[1].detach().set_requires_grad(true);
    const at::AutoGradMode with_gradient(true);
    const TwoTensors out = again.body({first, second}, again.context);
    variable_list outputs, gradients;
    for (const auto& [output, gradient] : {std::pair(out.first, upstream[0]), std::pair(out.second, upstream[1])}) {
      if (!gradient.defined()) continue;  // nothing goes on from it
      outputs.push_back(output);
      gradients.push_back(gradient);
    }
    torch::autograd::backward(outputs, gradients);
    return {first.grad(), second.grad(), {}, {}};
  }
};

}  // namespace

TwoTensors recomputed(const TwoTensors& in, const TwoToTwo& body, Context& context) {
  const variable_list out = Recomputed::apply(in.first, in.second, body, context);
  return {out[0], out[1]};
}

}  // namespace inkling
