#include "ops/linear_parts.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros_like.h>

#include "kernels/cpu_kernels.h"
#include "ops/cuda_library.h"
#include "ops/parallel.h"
#include "ops/reduce.h"

namespace inkling {
namespace {

at::Tensor output(const at::Tensor& x, const at::Tensor& matrix) {
  return at::empty({x.size(0), matrix.size(1)}, x.options().requires_grad(false));
}

float* floats(const at::Tensor& tensor) { return elements<float>(tensor); }

// pre += bias (may be undefined); out = gelu(pre).
void gelu_forward(const at::Tensor& pre, const at::Tensor& bias, const at::Tensor& out, GeluForm form) {
  const std::int64_t rows = pre.size(0), channels = pre.size(1);
  if (const CudaLibrary* const cuda = cuda_library(pre)) {
    with_kernels(*cuda, pre, [&](const auto& kernels, auto element) {
      using Element = decltype(element);
      kernels.gelu_forward(elements<Element>(pre), elements<Element>(bias), elements<Element>(out), form, rows,
                           channels, current_stream(pre));
    });
    return;
  }
  parallel_parts(rows, 16, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    cpu_kernels().gelu_forward(floats(pre) + begin * channels, floats(bias), floats(out) + begin * channels, form,
                               end - begin, channels);
  });
}

// gradient *= gelu'(pre), and its column sums are added to bias_gradient (may be undefined).
void gelu_backward(const at::Tensor& gradient, const at::Tensor& pre, const at::Tensor& bias_gradient, GeluForm form) {
  const std::int64_t rows = pre.size(0), channels = pre.size(1);
  if (const CudaLibrary* const cuda = cuda_library(pre)) {
    with_kernels(*cuda, pre, [&](const auto& kernels, auto element) {
      using Element = decltype(element);
      kernels.gelu_backward(elements<Element>(gradient), elements<Element>(pre), elements<Element>(gradient),
                            floats(bias_gradient), floats(cuda_scratch(pre, column_scratch(channels))), form, rows,
                            channels, current_stream(pre));
    });
    return;
  }
  add_over_parts(
      rows, {floats(bias_gradient)}, channels, [&](std::int64_t begin, std::int64_t end, float* const* sums) {
        float* const part = floats(gradient) + begin * channels;
        cpu_kernels().gelu_backward(part, floats(pre) + begin * channels, part, sums[0], form, end - begin, channels);
      });
}

// sums += the column sums of dy, if there are any sums.
void add_column_sums(const at::Tensor& dy, const at::Tensor& sums) {
  if (!sums.defined()) return;
  const std::int64_t rows = dy.size(0), channels = dy.size(1);
  if (const CudaLibrary* const cuda = cuda_library(dy)) {
    with_kernels(*cuda, dy, [&](const auto& kernels, auto element) {
      kernels.add_column_sums(elements<decltype(element)>(dy), floats(sums),
                              floats(cuda_scratch(dy, column_scratch(channels))), rows, channels, current_stream(dy));
    });
    return;
  }
  add_over_parts(rows, {floats(sums)}, channels, [&](std::int64_t begin, std::int64_t end, float* const* parts) {
    cpu_kernels().add_column_sums(floats(dy) + begin * channels, parts[0], end - begin, channels);
  });
}

}  // namespace

at::Tensor product(const at::Tensor& x, const LinearWeights& weights) {
  if (const CudaLibrary* const cuda = cuda_library(x)) {
    const at::Tensor out = output(x, weights.weight.value);
    const auto kind = weights.bias.defined() ? Epilogue::Kind::bias : Epilogue::Kind::none;
    multiply(*cuda, x, weights.weight.value, out, {.kind = kind, .vector = weights.bias.value});
    return out;
  }
  const at::Tensor matrix = weights.weight.in_float32();
  return weights.bias.defined() ? at::addmm(weights.bias.in_float32(), x, matrix) : at::mm(x, matrix);
}

std::pair<at::Tensor, at::Tensor> product_with_gelu(const at::Tensor& x, const LinearWeights& weights, GeluForm form,
                                                    bool repeatable) {
  if (const CudaLibrary* const cuda = cuda_library(x)) {
    const at::Tensor pre = output(x, weights.weight.value), out = at::empty_like(pre);
    const Epilogue gelu = {.kind = Epilogue::Kind::gelu, .vector = weights.bias.value, .pre = pre};
    // cublasLt takes the GELU of its sums before it rounds them.
    if (!repeatable && form == GeluForm::tanh && cuda->multiply(x, weights.weight.value, out, gelu)) return {pre, out};
    multiply(*cuda, x, weights.weight.value, pre);
    gelu_forward(pre, weights.bias.value, out, form);
    return {pre, out};
  }
  const at::Tensor pre = at::mm(x, weights.weight.in_float32()), out = at::empty_like(pre);
  gelu_forward(pre, weights.bias.in_float32(), out, form);
  return {pre, out};
}

at::Tensor gelu_again(const at::Tensor& pre, GeluForm form) {
  const at::Tensor out = at::empty_like(pre);
  gelu_forward(pre, {}, out, form);
  return out;
}

at::Tensor input_gradient(const at::Tensor& dy, const Weight& weight) {
  const at::Tensor transposed = weight.value.t();
  const CudaLibrary* const cuda = cuda_library(dy);
  if (cuda == nullptr) return at::mm(dy, transposed);
  const at::Tensor dx = output(dy, transposed);
  multiply(*cuda, dy, transposed, dx);
  return dx;
}

void add_gradients(const at::Tensor& x, const at::Tensor& dy, const LinearWeights& weights, bool overwrites) {
  const at::Tensor &gradient = weights.weight.gradient, &bias = weights.bias.gradient;
  const CudaLibrary* const cuda = cuda_library(x);
  if (cuda == nullptr) {
    add_column_sums(dy, bias);
    const double kept = overwrites ? 0.0 : 1.0;  // 0: what was there is not even read
    at::Tensor(gradient).addmm_(x.t(), dy, kept);
    return;
  }
  if (bias.defined()) {
    // The first pass finds zeros there. Later ones add what the product wrote.
    const at::Tensor sums = overwrites ? bias : at::zeros_like(bias);
    const Epilogue with_sums = {.kind = Epilogue::Kind::column_sums, .vector = sums, .accumulate = !overwrites};
    if (cuda->multiply(x.t(), dy, gradient, with_sums)) {
      if (!overwrites) at::Tensor(bias).add_(sums);
      return;
    }
    add_column_sums(dy, bias);
  }
  multiply(*cuda, x.t(), dy, gradient, {.accumulate = !overwrites});
}

at::Tensor add_gradients_through_gelu(const at::Tensor& x, const at::Tensor& pre, const at::Tensor& dy,
                                      const MlpWeights& weights, GeluForm form, bool overwrites) {
  const CudaLibrary* const cuda = cuda_library(dy);
  const Weight& c_proj = weights.c_proj.weight;
  if (cuda != nullptr && form == GeluForm::tanh) {
    const at::Tensor dpre = at::empty_like(pre);
    if (cuda->multiply(dy, c_proj.value.t(), dpre, {.kind = Epilogue::Kind::gelu_gradient, .pre = pre})) {
      add_gradients(x, dpre, weights.c_fc, overwrites);
      return dpre;
    }
  }
  const at::Tensor dpre = input_gradient(dy, c_proj);
  gelu_backward(dpre, pre, weights.c_fc.bias.gradient, form);
  add_gradients(x, dpre, {weights.c_fc.weight, {}}, overwrites);  // the bias has its own already
  return dpre;
}

}  // namespace inkling
