#include "ops/layer_norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/cpu_kernels.h"
#include "ops/cuda_library.h"
#include "ops/reduce.h"

namespace inkling {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

constexpr double epsilon = 1e-5;

struct Normalized {
  at::Tensor out, mean, rstd;
};

// sum is x itself where there is no branch.
Normalized forward_rows(const at::Tensor& x, const at::Tensor& branch, const at::Tensor& sum,
                        const NormWeights& weights) {
  const std::int64_t channels = x.size(-1);
  const std::int64_t rows = x.numel() / channels;
  Normalized result{at::empty_like(x), cuda_scratch(x, rows), cuda_scratch(x, rows)};
  if (const CudaLibrary* const cuda = cuda_library(x)) {
    with_kernels(*cuda, x, [&](const auto& kernels, auto element) {
      using Element = decltype(element);
      kernels.layer_norm_forward(elements<Element>(x), elements<Element>(branch), elements<Element>(sum),
                                 elements<Element>(result.out), elements<float>(result.mean),
                                 elements<float>(result.rstd), elements<Element>(weights.weight.value),
                                 elements<Element>(weights.bias.value), rows, channels, current_stream(x));
    });
    return result;
  }
  const float* const added = elements<float>(branch);
  const at::Tensor weight = weights.weight.in_float32(), bias = weights.bias.in_float32();
  parallel_parts(rows, 16, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    const std::int64_t offset = begin * channels;
    cpu_kernels().layer_norm_forward(x.data_ptr<float>() + offset, added == nullptr ? nullptr : added + offset,
                                     sum.data_ptr<float>() + offset, result.out.data_ptr<float>() + offset,
                                     result.mean.data_ptr<float>() + begin, result.rstd.data_ptr<float>() + begin,
                                     weight.data_ptr<float>(), elements<float>(bias), end - begin, channels);
  });
  return result;
}

void save(AutogradContext* context, const at::Tensor& sum, const Normalized& norm, const NormWeights& weights) {
  context->save_for_backward({sum, norm.mean, norm.rstd});
  context->saved_data["weight"] = weights.weight.value;
  context->saved_data["weight_gradient"] = weights.weight.gradient;
  if (weights.bias.defined()) context->saved_data["bias_gradient"] = weights.bias.gradient;
}

// dsum may be undefined: nothing else used the sum.
at::Tensor backward_rows(AutogradContext* context, const at::Tensor& dout, const at::Tensor& dsum) {
  const auto saved = context->get_saved_variables();
  const at::Tensor& sum = saved[0];
  const at::Tensor upstream = dout.contiguous();
  const at::Tensor residual = dsum.defined() ? dsum.contiguous() : dsum;
  const at::Tensor dx = at::empty_like(sum);
  const std::int64_t channels = sum.size(-1);
  const auto bias = context->saved_data.find("bias_gradient");
  float* const dweight = context->saved_data["weight_gradient"].toTensor().data_ptr<float>();
  float* const dbias = bias == context->saved_data.end() ? nullptr : bias->second.toTensor().data_ptr<float>();
  const at::Tensor weight = context->saved_data["weight"].toTensor();
  if (const CudaLibrary* const cuda = cuda_library(sum)) {
    with_kernels(*cuda, sum, [&](const auto& kernels, auto element) {
      using Element = decltype(element);
      kernels.layer_norm_backward(elements<Element>(upstream), elements<Element>(residual), elements<Element>(sum),
                                  elements<float>(saved[1]), elements<float>(saved[2]), elements<Element>(weight),
                                  elements<Element>(dx), dweight, dbias,
                                  elements<float>(cuda_scratch(sum, layer_norm_scratch(channels))),
                                  sum.numel() / channels, channels, current_stream(sum));
    });
    return dx;
  }
  add_over_parts(sum.numel() / channels, {dweight, dbias}, channels,
                 [&](std::int64_t begin, std::int64_t end, float* const* sums) {
                   const std::int64_t offset = begin * channels;
                   const float* const dsum_rows = elements<float>(residual);
                   cpu_kernels().layer_norm_backward(
                       upstream.data_ptr<float>() + offset, dsum_rows == nullptr ? nullptr : dsum_rows + offset,
                       sum.data_ptr<float>() + offset, saved[1].data_ptr<float>() + begin,
                       saved[2].data_ptr<float>() + begin, weight.data_ptr<float>(), dx.data_ptr<float>() + offset,
                       sums[0], sums[1], end - begin, channels);
                 });
  return dx;
}

struct FusedLayerNorm : Function<FusedLayerNorm> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const NormWeights& weights) {
    const at::Tensor in = x.contiguous();
    const Normalized norm = forward_rows(in, {}, in, weights);
    save(context, in, norm, weights);
    return norm.out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    return {backward_rows(context, upstream[0], {}), {}};
  }
};

struct FusedAddLayerNorm : Function<FusedAddLayerNorm> {
  static variable_list forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& branch,
                               const NormWeights& weights) {
    context->set_materialize_grads(false);
    const at::Tensor in = x.contiguous();
    const at::Tensor sum = at::empty_like(in);
    const Normalized norm = forward_rows(in, branch.contiguous(), sum, weights);
    save(context, sum, norm, weights);
    return {sum, norm.out};
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const at::Tensor dx = backward_rows(context, upstream[1], upstream[0]);
    return {dx, dx, {}};
  }
};

}  // namespace

at::Tensor layer_norm(const at::Tensor& x, const NormWeights& weights, const Context& context) {
  RECORD_FUNCTION("layer_norm", std::vector<c10::IValue>());
  const bool fused = context.kernels == Kernels::fused;
  if (fused && context.decoding) return forward_rows(x, {}, x, weights).out;
  if (fused) return FusedLayerNorm::apply(x, weights);
  return at::layer_norm(x, {x.size(-1)}, weights.weight.value, weights.bias.value, epsilon);
}

std::pair<at::Tensor, at::Tensor> add_layer_norm(const at::Tensor& x, const at::Tensor& branch,
                                                 const NormWeights& weights, const Context& context) {
  RECORD_FUNCTION("add_layer_norm", std::vector<c10::IValue>());
  const bool fused = context.kernels == Kernels::fused;
  if (fused && context.decoding) {  // on a GPU: on the CPU this is part of decode_block()
    const at::Tensor sum = at::empty_like(x);
    return {sum, forward_rows(x, branch, sum, weights).out};
  }
  if (fused) {
    const variable_list both = FusedAddLayerNorm::apply(x, branch, weights);
    return {both[0], both[1]};
  }
  const at::Tensor sum = x + branch;
  return {sum, layer_norm(sum, weights, context)};
}

}  // namespace inkling
