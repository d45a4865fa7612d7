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

void save(AutogradContext* context, const LinearWeights& weights, bool overwrites) {
  context->saved_data["weight"] = weights.weight.value;
  context->saved_data["overwrites"] = overwrites;
  context->saved_data["weight_gradient"] = weights.weight.gradient;
  if (weights.bias.defined()) context->saved_data["bias_gradient"] = weights.bias.gradient;
}

// dx = dy W^T, and dW += x^T dy (or dW = …) straight into the arena.
at::Tensor product_backward(AutogradContext* context, const at::Tensor& x, const at::Tensor& dy) {
  const double kept = context->saved_data["overwrites"].toBool() ? 0.0 : 1.0;  // 0: what was there is not even read
  context->saved_data["weight_gradient"].toTensor().addmm_(x.t(), dy, kept);
  return at::mm(dy, context->saved_data["weight"].toTensor().t());
}

float* bias_gradient_or_null(AutogradContext* context) {
  const auto found = context->saved_data.find("bias_gradient");
  return found == context->saved_data.end() ? nullptr : found->second.toTensor().data_ptr<float>();
}

struct FusedLinear : Function<FusedLinear> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const LinearWeights& weights,
                            bool overwrites) {
    const at::Tensor rows = as_rows(x);
    context->save_for_backward({rows});
    save(context, weights, overwrites);
    const at::Tensor out = weights.bias.defined()
                               ? at::addmm(weights.bias.in_float32(), rows, weights.weight.in_float32())
                               : at::mm(rows, weights.weight.in_float32());
    return with_last(out, x);
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const at::Tensor rows = context->get_saved_variables()[0];
    const at::Tensor dy = as_rows(upstream[0]).contiguous();
    if (float* const gradient = bias_gradient_or_null(context)) {
      const std::int64_t channels = dy.size(1);
      add_over_parts(dy.size(0), {gradient}, channels, [&](std::int64_t begin, std::int64_t end, float* const* sums) {
        cpu_kernels().add_column_sums(dy.data_ptr<float>() + begin * channels, sums[0], end - begin, channels);
      });
    }
    return {with_last(product_backward(context, rows, dy), upstream[0]), {}, {}};
  }
};

struct FusedLinearGelu : Function<FusedLinearGelu> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const LinearWeights& weights, GeluForm form,
                            bool overwrites) {
    const at::Tensor rows = as_rows(x);
    const at::Tensor pre = at::mm(rows, weights.weight.in_float32());
    const at::Tensor out = at::empty_like(pre);
    const at::Tensor shift = weights.bias.in_float32();
    const float* const bias = shift.defined() ? shift.data_ptr<float>() : nullptr;
    const std::int64_t channels = pre.size(1);
    parallel_parts(pre.size(0), 16, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
      cpu_kernels().gelu_forward(pre.data_ptr<float>() + begin * channels, bias,
                                 out.data_ptr<float>() + begin * channels, form, end - begin, channels);
    });
    context->save_for_backward({rows, pre});
    save(context, weights, overwrites);
    context->saved_data["exact"] = form == GeluForm::exact;
    return with_last(out, x);
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto saved = context->get_saved_variables();
    const at::Tensor dy = as_rows(upstream[0]).contiguous();
    const at::Tensor dpre = at::empty_like(dy);
    const GeluForm form = context->saved_data["exact"].toBool() ? GeluForm::exact : GeluForm::tanh;
    const std::int64_t channels = dy.size(1);
    const auto rows_backward = [&](std::int64_t begin, std::int64_t end, float* const* sums) {
      const std::int64_t offset = begin * channels;
      cpu_kernels().gelu_backward(dy.data_ptr<float>() + offset, saved[1].data_ptr<float>() + offset,
                                  dpre.data_ptr<float>() + offset, sums[0], form, end - begin, channels);
    };
    add_over_parts(dy.size(0), {bias_gradient_or_null(context)}, channels, rows_backward);
    return {with_last(product_backward(context, saved[0], dpre), upstream[0]), {}, {}, {}};
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

at::Tensor linear_gelu(const at::Tensor& x, const LinearWeights& weights, GeluForm form, const Context& context) {
  RECORD_FUNCTION("linear_gelu", std::vector<c10::IValue>());
  if (context.kernels == Kernels::aten) {
    return at::gelu(aten_linear(x, weights), form == GeluForm::tanh ? "tanh" : "none");
  }
  if (context.decoding) {
    const at::Tensor out = decode_linear(x, weights);
    cpu_kernels().gelu_forward(out.data_ptr<float>(), nullptr, out.data_ptr<float>(), form, 1, out.numel());
    return out;
  }
  return FusedLinearGelu::apply(x, weights, form, context.overwrites);
}

}  // namespace inkling
