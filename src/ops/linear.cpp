#include "ops/linear.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>

#include "ops/kept.h"
#include "ops/parallel.h"
#include "ops/reduce.h"

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

// [C] + what it holds already += the sums of the columns of dy.
void add_column_sums(const at::Tensor& dy, const Weight& bias) {
  if (!bias.defined()) return;
  const std::int64_t channels = dy.size(1);
  add_over_parts(dy.size(0), {bias.gradient.data_ptr<float>()}, channels,
                 [&](std::int64_t begin, std::int64_t end, float* const* sums) {
                   cpu_kernels().add_column_sums(dy.data_ptr<float>() + begin * channels, sums[0], end - begin,
                                                 channels);
                 });
}

// dx = dy W^T, and dW += x^T dy (or dW = …) straight into the arena.
at::Tensor product_backward(const at::Tensor& x, const at::Tensor& dy, const Weight& weight, bool overwrites) {
  const double kept = overwrites ? 0.0 : 1.0;  // 0: what was there is not even read
  at::Tensor(weight.gradient).addmm_(x.t(), dy, kept);
  return at::mm(dy, weight.value.t());
}

at::Tensor product_forward(const at::Tensor& rows, const LinearWeights& weights) {
  const at::Tensor weight = weights.weight.in_float32();
  return weights.bias.defined() ? at::addmm(weights.bias.in_float32(), rows, weight) : at::mm(rows, weight);
}

struct FusedLinear : Function<FusedLinear> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const LinearWeights& weights,
                            bool overwrites) {
    const at::Tensor rows = as_rows(x);
    context->save_for_backward({rows});
    keep(context, LinearState{weights, overwrites});
    return with_last(product_forward(rows, weights), x);
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const at::Tensor rows = context->get_saved_variables()[0];
    const auto& [weights, overwrites] = kept<LinearState>(context);
    const at::Tensor dy = as_rows(upstream[0]).contiguous();
    add_column_sums(dy, weights.bias);
    return {with_last(product_backward(rows, dy, weights.weight, overwrites), upstream[0]), {}, {}};
  }

  struct LinearState {
    LinearWeights weights;
    bool overwrites;
  };
};

// pre += bias, and gelu(pre).
at::Tensor gelu_forward(const at::Tensor& pre, const at::Tensor& bias, GeluForm form) {
  const at::Tensor out = at::empty_like(pre);
  const float* const added = bias.defined() ? bias.data_ptr<float>() : nullptr;
  const std::int64_t channels = pre.size(1);
  parallel_parts(pre.size(0), 16, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    cpu_kernels().gelu_forward(pre.data_ptr<float>() + begin * channels, added,
                               out.data_ptr<float>() + begin * channels, form, end - begin, channels);
  });
  return out;
}

// dy becomes the gradient of what came into GELU.
void gelu_backward(const at::Tensor& dy, const at::Tensor& pre, const Weight& bias, GeluForm form) {
  const std::int64_t channels = dy.size(1);
  float* const gradient = bias.defined() ? bias.gradient.data_ptr<float>() : nullptr;
  add_over_parts(dy.size(0), {gradient}, channels, [&](std::int64_t begin, std::int64_t end, float* const* sums) {
    float* const rows = dy.data_ptr<float>() + begin * channels;
    cpu_kernels().gelu_backward(rows, pre.data_ptr<float>() + begin * channels, rows, sums[0], form, end - begin,
                                channels);
  });
}

struct FusedMlp : Function<FusedMlp> {
  struct MlpState {
    MlpWeights weights;
    GeluForm form;
    bool overwrites;
  };

  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const MlpState& state, bool recompute) {
    const auto& [weights, form, overwrites] = state;
    const at::Tensor rows = as_rows(x);
    const at::Tensor pre = at::mm(rows, weights.c_fc.weight.in_float32());
    const at::Tensor wide = gelu_forward(pre, weights.c_fc.bias.in_float32(), form);
    context->save_for_backward({rows, pre, recompute ? at::Tensor() : wide});
    keep(context, state);
    return with_last(product_forward(wide, weights.c_proj), x);
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto saved = context->get_saved_variables();
    const auto& [weights, form, overwrites] = kept<MlpState>(context);
    const at::Tensor& pre = saved[1];
    const at::Tensor dy = as_rows(upstream[0]).contiguous();
    add_column_sums(dy, weights.c_proj.bias);
    const at::Tensor wide = saved[2].defined() ? saved[2] : gelu_forward(pre, {}, form);
    const at::Tensor dpre = product_backward(wide, dy, weights.c_proj.weight, overwrites);
    gelu_backward(dpre, pre, weights.c_fc.bias, form);
    return {with_last(product_backward(saved[0], dpre, weights.c_fc.weight, overwrites), upstream[0]), {}, {}};
  }
};

// A few rows, each summed on its own: the columns go over the threads.
at::Tensor decode_linear(const at::Tensor& x, const LinearWeights& weights) {
  const at::Tensor rows = as_rows(x).contiguous();
  const std::int64_t inner = rows.size(1);
  const at::Tensor& weight = weights.weight.value;
  const std::int64_t columns = weight.size(1);
  const at::Tensor out = at::empty({rows.size(0), columns}, rows.options());
  const at::Tensor shift = weights.bias.in_float32();
  const float* const bias = shift.defined() ? shift.data_ptr<float>() : nullptr;
  parallel_parts(columns, 64, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    if (weight.scalar_type() == at::kBFloat16) {
      cpu_kernels().rows_times_matrix_bfloat16(rows.data_ptr<float>(),
                                               reinterpret_cast<const std::uint16_t*>(weight.data_ptr<at::BFloat16>()),
                                               bias, out.data_ptr<float>(), rows.size(0), inner, columns, begin, end);
    } else {
      cpu_kernels().rows_times_matrix(rows.data_ptr<float>(), weight.data_ptr<float>(), bias, out.data_ptr<float>(),
                                      rows.size(0), inner, columns, begin, end);
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
  if (context.kernels == Kernels::aten) return aten_linear(x, weights);
  if (context.decoding) return decode_linear(x, weights);
  return FusedLinear::apply(x, weights, context.overwrites);
}

at::Tensor mlp(const at::Tensor& x, const MlpWeights& weights, GeluForm form, const Context& context) {
  RECORD_FUNCTION("mlp", std::vector<c10::IValue>());
  if (context.kernels == Kernels::aten) {
    const at::Tensor wide = at::gelu(aten_linear(x, weights.c_fc), form == GeluForm::tanh ? "tanh" : "none");
    return aten_linear(wide, weights.c_proj);
  }
  if (context.decoding) {
    const at::Tensor wide = decode_linear(x, weights.c_fc);
    cpu_kernels().gelu_forward(wide.data_ptr<float>(), nullptr, wide.data_ptr<float>(), form, 1, wide.numel());
    return decode_linear(wide, weights.c_proj);
  }
  return FusedMlp::apply(x, FusedMlp::MlpState{weights, form, context.overwrites},
                         context.recompute == Recompute::gelu);
}

}  // namespace inkling
