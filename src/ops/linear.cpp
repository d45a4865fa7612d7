#include "ops/linear.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/matmul.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <vector>

#include "ops/cuda_library.h"
#include "ops/kept.h"
#include "ops/linear_parts.h"

namespace inkling {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

at::Tensor as_rows(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}); }

at::Tensor with_last(const at::Tensor& rows, const at::Tensor& like) {
  auto shape = like.sizes().vec();
  shape.back() = rows.size(-1);
  return rows.view(shape);
}

struct FusedLinear : Function<FusedLinear> {
  struct LinearState {
    LinearWeights weights;
    bool overwrites;
  };

  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const LinearState& state) {
    const at::Tensor rows = as_rows(x);
    context->save_for_backward({rows});
    keep(context, state);
    return with_last(product(rows, state.weights), x);
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const at::Tensor rows = context->get_saved_variables()[0];
    const auto& [weights, overwrites] = kept<LinearState>(context);
    const at::Tensor dy = as_rows(upstream[0]).contiguous();
    add_gradients(rows, dy, weights, overwrites);
    return {with_last(input_gradient(dy, weights.weight), upstream[0]), {}};
  }
};

struct FusedMlp : Function<FusedMlp> {
  struct MlpState {
    MlpWeights weights;
    GeluForm form;
    bool overwrites;
  };

  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const MlpState& state, bool recompute) {
    const at::Tensor rows = as_rows(x);
    const auto [pre, wide] = product_with_gelu(rows, state.weights.c_fc, state.form, recompute);
    context->save_for_backward({rows, pre, recompute ? at::Tensor() : wide});
    keep(context, state);
    return with_last(product(wide, state.weights.c_proj), x);
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &rows = saved[0], &pre = saved[1];
    const auto& [weights, form, overwrites] = kept<MlpState>(context);
    const at::Tensor dy = as_rows(upstream[0]).contiguous();
    add_gradients(saved[2].defined() ? saved[2] : gelu_again(pre, form), dy, weights.c_proj, overwrites);
    const at::Tensor dpre = add_gradients_through_gelu(rows, pre, dy, weights, form, overwrites);
    return {with_last(input_gradient(dpre, weights.c_fc.weight), upstream[0]), {}, {}};
  }
};

// A few rows on a GPU; with a form, gelu of the product.
at::Tensor decode_linear(const CudaLibrary& cuda, const at::Tensor& x, const LinearWeights& weights,
                         std::optional<GeluForm> form) {
  const at::Tensor rows = as_rows(x).contiguous();
  const std::int64_t count = rows.size(0), inner = rows.size(1), columns = weights.weight.value.size(1);
  const at::Tensor out = at::empty({count, columns}, rows.options());
  with_kernels(cuda, rows, [&](const auto& kernels, auto element) {
    using Element = decltype(element);
    const auto *const in = elements<Element>(rows), *const weight = elements<Element>(weights.weight.value),
                      *const bias = elements<Element>(weights.bias.value);
    const Stream stream = current_stream(rows);
    if (form) {
      kernels.rows_times_matrix_gelu(in, weight, bias, elements<Element>(out), *form, count, inner, columns, stream);
    } else {
      kernels.rows_times_matrix(in, weight, bias, elements<Element>(out), count, inner, columns, stream);
    }
  });
  return with_last(out, x);
}

at::Tensor aten_linear(const at::Tensor& x, const LinearWeights& weights) {
  const at::Tensor product = at::matmul(x, weights.weight.value);
  return weights.bias.defined() ? product + weights.bias.value : product;
}

}  // namespace

at::Tensor linear(const at::Tensor& x, const LinearWeights& weights, const Context& context) {
  RECORD_FUNCTION("linear", std::vector<c10::IValue>());
  if (context.kernels == Kernels::reference) return aten_linear(x, weights);
  const CudaLibrary* const cuda = context.decoding ? cuda_library(x) : nullptr;
  if (cuda != nullptr) return decode_linear(*cuda, x, weights, {});
  return FusedLinear::apply(x, FusedLinear::LinearState{weights, context.overwrites});
}

at::Tensor mlp(const at::Tensor& x, const MlpWeights& weights, GeluForm form, const Context& context) {
  RECORD_FUNCTION("mlp", std::vector<c10::IValue>());
  if (context.kernels == Kernels::reference) {
    const at::Tensor wide = at::gelu(aten_linear(x, weights.c_fc), form == GeluForm::tanh ? "tanh" : "none");
    return aten_linear(wide, weights.c_proj);
  }
  const CudaLibrary* const cuda = context.decoding ? cuda_library(x) : nullptr;
  if (cuda != nullptr) return decode_linear(*cuda, decode_linear(*cuda, x, weights.c_fc, form), weights.c_proj, {});
  return FusedMlp::apply(x, FusedMlp::MlpState{weights, form, context.overwrites},
                         context.recompute == Recompute::gelu);
}

}  // namespace inkling
