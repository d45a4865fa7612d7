#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>

#include "backend/cpu_backend.h"
#include "backend/elements.h"
#include "kernels/cpu_kernels.h"
#include "runtime/parallel.h"

namespace inkling::cpu {

namespace {

// pre += bias (may be undefined) -> activation(pre).
at::Tensor activation_forward(const at::Tensor& pre, const at::Tensor& bias, Activation activation) {
  const std::int64_t rows = pre.size(0), before = pre.size(1), inner = narrowed(activation, before);
  const at::Tensor out = at::empty({rows, inner}, pre.options());
  parallel_parts(rows, 16, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    cpu_kernels().activation_forward(floats(pre) + begin * before, floats(bias), floats(out) + begin * inner,
                                     activation, end - begin, inner);
  });
  return out;
}

// Returns dout * activation'(pre), which may be dout itself; its column sums are added to bias_gradient (may be
// undefined).
at::Tensor activation_backward(const at::Tensor& dout, const at::Tensor& pre, const at::Tensor& bias_gradient,
                               Activation activation) {
  const std::int64_t rows = pre.size(0), before = pre.size(1), inner = narrowed(activation, before);
  const at::Tensor dpre = is_gated(activation) ? at::empty_like(pre) : dout;
  add_over_parts(rows, {floats(bias_gradient)}, before, [&](std::int64_t begin, std::int64_t end, float* const* sums) {
    cpu_kernels().activation_backward(floats(dout) + begin * inner, floats(pre) + begin * before,
                                      floats(dpre) + begin * before, sums[0], activation, end - begin, inner);
  });
  return dpre;
}

// dW = beta dW + x^T dout
void add_weight_gradient(const at::Tensor& dout, const at::Tensor& x, const Weight& weight) {
  at::Tensor(weight.gradient).addmm_(x.t(), dout, weight.begin_write());
}

void add_column_sums(const at::Tensor& dout, const at::Tensor& sums) {
  if (!sums.defined()) return;
  const std::int64_t rows = dout.size(0), channels = dout.size(1);
  add_over_parts(rows, {floats(sums)}, channels, [&](std::int64_t begin, std::int64_t end, float* const* parts) {
    cpu_kernels().add_column_sums(floats(dout) + begin * channels, parts[0], end - begin, channels);
  });
}

void add_gradients(const at::Tensor& dout, const at::Tensor& x, const LinearWeights& weights) {
  add_column_sums(dout, weights.bias.gradient_to_add_to());
  add_weight_gradient(dout, x, weights.weight);
}

}  // namespace

at::Tensor linear(const at::Tensor& x, const LinearWeights& weights) {
  const at::Tensor matrix = in_float32(weights.weight);
  return weights.bias.defined() ? at::addmm(in_float32(weights.bias), x, matrix) : at::mm(x, matrix);
}

at::Tensor linear_backward(const at::Tensor& dout, const at::Tensor& x, const LinearWeights& weights) {
  add_gradients(dout, x, weights);
  return at::mm(dout, weights.weight.value.t());
}

Widened mlp(const at::Tensor& x, const MlpWeights& weights, bool) {
  const at::Tensor pre = at::mm(x, in_float32(weights.c_fc.weight));
  const at::Tensor wide = activation_forward(pre, in_float32(weights.c_fc.bias), weights.activation);
  return {.out = linear(wide, weights.c_proj), .pre = pre, .wide = wide};
}

at::Tensor mlp_backward(const at::Tensor& dout, const at::Tensor& x, const at::Tensor& pre, const at::Tensor& wide,
                        const MlpWeights& weights) {
  add_gradients(dout, wide.defined() ? wide : activation_forward(pre, {}, weights.activation), weights.c_proj);
  const at::Tensor dwide = at::mm(dout, weights.c_proj.weight.value.t());
  const at::Tensor dpre = activation_backward(dwide, pre, weights.c_fc.bias.gradient_to_add_to(), weights.activation);
  add_weight_gradient(dpre, x, weights.c_fc.weight);
  return at::mm(dpre, weights.c_fc.weight.value.t());
}

at::Tensor conv(const at::Tensor& x, const Weight& weight, const at::Tensor& positions) {
  const at::Tensor in = x.contiguous(), out = at::empty_like(in), lines = in_float32(weight);
  const std::int64_t time = in.size(1), channels = in.size(2);
  parallel_parts(in.size(0) * time, 16, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    cpu_kernels().conv_forward(floats(in), floats(lines), elements<std::int64_t>(positions), floats(out), begin,
                               end - begin, time, channels, lines.size(0));
  });
  return out;
}

at::Tensor conv_backward(const at::Tensor& dout, const at::Tensor& x, const Weight& weight,
                         const at::Tensor& positions) {
  const at::Tensor dx = at::empty_like(dout);
  const std::int64_t time = x.size(1), channels = x.size(2), width = weight.value.size(0);
  float* const dweight = floats(weight.gradient_to_add_to());
  add_over_parts(
      x.size(0) * time, {dweight}, width * channels, [&](std::int64_t begin, std::int64_t end, float* const* sums) {
        cpu_kernels().conv_backward(floats(dout), floats(x), floats(weight.value), elements<std::int64_t>(positions),
                                    floats(dx), sums[0], begin, end - begin, time, channels, width);
      });
  return dx;
}

}  // namespace inkling::cpu
