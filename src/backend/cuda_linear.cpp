#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>

#include "backend/cuda_backend.h"
#include "backend/cuda_products.h"

namespace inkling::cuda {

namespace {

at::Tensor output(const at::Tensor& x, const at::Tensor& matrix) {
  return at::empty({x.size(0), matrix.size(1)}, x.options().requires_grad(false));
}

// pre += bias (may be undefined). Writes activation(pre) to `out`.
void activation_forward(const at::Tensor& pre, const at::Tensor& bias, const at::Tensor& out, Activation activation) {
  with_kernels(pre, [&](const auto& kernels, auto element) {
    using Element = decltype(element);
    kernels.activation_forward(elements<Element>(pre), elements<Element>(bias), elements<Element>(out), activation,
                               out.numel() / out.size(-1), out.size(-1), current_stream());
  });
}

at::Tensor before_c_proj(const at::Tensor& pre, Activation activation) {
  auto sizes = pre.sizes().vec();
  sizes.back() = narrowed(activation, sizes.back());
  return at::empty(sizes, pre.options());
}

// Returns dout * activation'(pre), which may be dout itself; its column sums are added to bias_gradient (may be
// undefined).
at::Tensor activation_backward(const at::Tensor& dout, const at::Tensor& pre, const at::Tensor& bias_gradient,
                               Activation activation) {
  const at::Tensor dpre = is_gated(activation) ? at::empty_like(pre) : dout;
  with_kernels(pre, [&](const auto& kernels, auto element) {
    using Element = decltype(element);
    kernels.activation_backward(elements<Element>(dout), elements<Element>(pre), elements<Element>(dpre),
                                floats(bias_gradient), floats(scratch(pre, column_scratch(pre.size(1)))), activation,
                                dout.size(0), dout.size(1), current_stream());
  });
  return dpre;
}

void add_column_sums(const at::Tensor& dout, const at::Tensor& sums) {
  const std::int64_t rows = dout.size(0), channels = dout.size(1);
  with_kernels(dout, [&](const auto& kernels, auto element) {
    kernels.add_column_sums(elements<decltype(element)>(dout), floats(sums),
                            floats(scratch(dout, column_scratch(channels))), rows, channels, current_stream());
  });
}

// Computes the gradients of weight and bias by one product, whose column sums go to zeros first. False: cublasLt has
// none.
bool add_both_gradients(const at::Tensor& dout, const at::Tensor& x, const LinearWeights& weights, bool accumulate) {
  const at::Tensor sums = at::zeros_like(weights.bias.gradient);
  const Epilogue with_sums = {.kind = Epilogue::Kind::column_sums, .vector = sums, .accumulate = accumulate};
  if (!try_multiply(x.t(), dout, weights.weight.gradient, with_sums)) return false;
  at::Tensor(weights.bias.gradient_to_add_to()).add_(sums);
  return true;
}

void add_gradients(const at::Tensor& dout, const at::Tensor& x, const LinearWeights& weights) {
  const bool accumulate = weights.weight.begin_write() != 0.0;
  if (weights.bias.defined()) {
    if (add_both_gradients(dout, x, weights, accumulate)) return;
    add_column_sums(dout, weights.bias.gradient_to_add_to());
  }
  multiply(x.t(), dout, weights.weight.gradient, {.accumulate = accumulate});
}

at::Tensor input_gradient(const at::Tensor& dout, const Weight& weight) {
  const at::Tensor transposed = weight.value.t(), dx = output(dout, transposed);
  multiply(dout, transposed, dx);
  return dx;
}

// Whether a product can end with it: cublasLt's GELU has errors of 1e-5 (seen on an H100), too many for float32, and it
// takes rows of `pre` that do not begin at multiples of 8 elements, which its header forbids, and its kernel then dies.
bool is_epilogue(Activation activation, const at::Tensor& pre) {
  return activation == Activation::gelu_tanh && pre.scalar_type() == at::kBFloat16 && pre.size(-1) % 8 == 0;
}

}  // namespace

at::Tensor activated(const at::Tensor& pre, Activation activation) {
  const at::Tensor out = before_c_proj(pre, activation);
  activation_forward(pre, {}, out, activation);
  return out;
}

at::Tensor linear(const at::Tensor& x, const LinearWeights& weights) {
  const at::Tensor out = output(x, weights.weight.value);
  const auto kind = weights.bias.defined() ? Epilogue::Kind::bias : Epilogue::Kind::none;
  multiply(x, weights.weight.value, out, {.kind = kind, .vector = weights.bias.value});
  return out;
}

at::Tensor linear_backward(const at::Tensor& dout, const at::Tensor& x, const LinearWeights& weights) {
  add_gradients(dout, x, weights);
  return input_gradient(dout, weights.weight);
}

Widened mlp(const at::Tensor& x, const MlpWeights& weights, bool repeatable) {
  const auto& [weight, bias] = weights.c_fc;
  const at::Tensor pre = output(x, weight.value), wide = before_c_proj(pre, weights.activation);
  const Epilogue gelu = {.kind = Epilogue::Kind::gelu, .vector = bias.value, .pre = pre};
  // cublasLt takes the GELU of its sums before it rounds them, so its bits cannot be computed again from `pre`.
  const bool in_product =
      !repeatable && is_epilogue(weights.activation, pre) && try_multiply(x, weight.value, wide, gelu);
  if (!in_product) {
    multiply(x, weight.value, pre);
    activation_forward(pre, bias.value, wide, weights.activation);
  }
  return {.out = linear(wide, weights.c_proj), .pre = pre, .wide = wide};
}

at::Tensor mlp_backward(const at::Tensor& dout, const at::Tensor& x, const at::Tensor& pre, const at::Tensor& wide,
                        const MlpWeights& weights) {
  add_gradients(dout, wide.defined() ? wide : activated(pre, weights.activation), weights.c_proj);
  const Weight& c_proj = weights.c_proj.weight;
  if (is_epilogue(weights.activation, pre)) {
    const at::Tensor dpre = at::empty_like(pre);
    const Epilogue through_gelu = {.kind = Epilogue::Kind::gelu_gradient, .pre = pre};
    if (try_multiply(dout, c_proj.value.t(), dpre, through_gelu)) {
      add_gradients(dpre, x, weights.c_fc);
      return input_gradient(dpre, weights.c_fc.weight);
    }
  }
  const at::Tensor dpre = activation_backward(input_gradient(dout, c_proj), pre, weights.c_fc.bias.gradient_to_add_to(),
                                              weights.activation);
  add_gradients(dpre, x, {weights.c_fc.weight, {}});  // the bias's gradient comes from activation_backward()
  return input_gradient(dpre, weights.c_fc.weight);
}

at::Tensor conv(const at::Tensor& x, const Weight& weight, const at::Tensor& positions) {
  const at::Tensor in = x.contiguous(), out = at::empty_like(in);
  with_kernels(in, [&](const auto& kernels, auto element) {
    using Element = decltype(element);
    kernels.conv_forward(elements<Element>(in), elements<Element>(weight.value), elements<std::int64_t>(positions),
                         elements<Element>(out), in.size(0) * in.size(1), in.size(1), in.size(2), weight.value.size(0),
                         current_stream());
  });
  return out;
}

at::Tensor conv_backward(const at::Tensor& dout, const at::Tensor& x, const Weight& weight,
                         const at::Tensor& positions) {
  const at::Tensor dx = at::empty_like(dout);
  const std::int64_t channels = x.size(2), width = weight.value.size(0);
  float* const dweight = floats(weight.gradient_to_add_to());
  with_kernels(x, [&](const auto& kernels, auto element) {
    using Element = decltype(element);
    kernels.conv_backward(elements<Element>(dout), elements<Element>(x), elements<Element>(weight.value),
                          elements<std::int64_t>(positions), elements<Element>(dx), dweight,
                          floats(scratch(x, column_scratch(width * channels))), x.size(0) * x.size(1), x.size(1),
                          channels, width, current_stream());
  });
  return dx;
}

at::Tensor conv_cached(const at::Tensor& x, const at::Tensor& inputs, const Weight& weight, const at::Tensor& lengths) {
  const at::Tensor out = at::empty_like(x);
  with_kernels(x, [&](const auto& kernels, auto element) {
    using Element = decltype(element);
    kernels.conv_cached(elements<Element>(x), elements<Element>(inputs), elements<Element>(weight.value),
                        elements<std::int64_t>(lengths), elements<Element>(out), x.size(0), x.size(-1),
                        weight.value.size(0), current_stream());
  });
  return out;
}

}  // namespace inkling::cuda
