#include "ops/cross_entropy.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>

#include <limits>
#include <vector>

#include "kernels/cpu_kernels.h"
#include "ops/cuda_library.h"
#include "ops/kept.h"
#include "ops/parallel.h"

namespace inkling {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// The logits become their own gradient in the pass that computes the loss, so [rows, V] exists once.
struct FusedHead : Function<FusedHead> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const Weight& table,
                            const at::Tensor& targets, bool overwrites) {
    const at::Tensor rows = x.reshape({-1, x.size(-1)});
    const at::Tensor wanted = targets.reshape({-1}).contiguous();
    const at::Tensor logits = at::mm(rows, table.in_float32().t());
    const std::int64_t vocabulary = logits.size(1);
    const auto scored = wanted.ge(0).sum().item<std::int64_t>();
    const float scale = 1.0f / static_cast<float>(scored);
    std::vector<double> losses(static_cast<std::size_t>(at::get_num_threads()), 0.0);
    parallel_parts(rows.size(0), 8, [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
      losses[static_cast<std::size_t>(part)] =
          cpu_kernels().cross_entropy(logits.data_ptr<float>() + begin * vocabulary,
                                      wanted.data_ptr<std::int64_t>() + begin, scale, end - begin, vocabulary);
    });
    double loss = 0.0;
    for (double part : losses) loss += part;
    context->save_for_backward({rows, logits});
    context->saved_data["table"] = table.value;
    context->saved_data["table_gradient"] = table.gradient;
    context->saved_data["overwrites"] = overwrites;
    context->saved_data["shape"] = x.sizes().vec();
    return at::scalar_tensor(loss / static_cast<double>(scored), x.options().requires_grad(false));
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto saved = context->get_saved_variables();
    const at::Tensor& dlogits = saved[1];
    const double factor = upstream[0].item<double>();
    const double kept = context->saved_data["overwrites"].toBool() ? 0.0 : 1.0;  // 0: what was there is not even read
    context->saved_data["table_gradient"].toTensor().addmm_(dlogits.t(), saved[0], kept, factor);
    const at::Tensor dx = at::mm(dlogits, context->saved_data["table"].toTensor());
    if (factor != 1.0) dx.mul_(factor);
    return {dx.view(context->saved_data["shape"].toIntVector()), {}, {}, {}};
  }
};

// The same on a GPU, without waiting for it: the number of scored targets and the upstream gradient stay there. Rows of
// logits begin at multiples of 128 elements, which products are faster with.
struct DeviceHead : Function<DeviceHead> {
  struct Head {
    Weight table;
    bool overwrites;
  };

  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& targets,
                            const Head& head) {
    const CudaLibrary& cuda = *cuda_library(x);
    const at::Tensor rows = x.reshape({-1, x.size(-1)});
    const at::Tensor wanted = targets.reshape({-1}).contiguous();
    const std::int64_t vocabulary = head.table.value.size(0), stride = (vocabulary + 127) / 128 * 128;
    const at::Tensor padded = at::empty({rows.size(0), stride}, rows.options());
    multiply(cuda, rows, head.table.value.t(), padded.narrow(1, 0, vocabulary));
    const at::Tensor scale = wanted.ge(0).sum().to(at::kFloat).reciprocal();
    const at::Tensor losses = cuda_scratch(x, rows.size(0));
    with_kernels(cuda, padded, [&](const auto& kernels, auto element) {
      kernels.cross_entropy(elements<decltype(element)>(padded), elements<std::int64_t>(wanted),
                            elements<float>(losses), elements<float>(scale), rows.size(0), vocabulary, stride,
                            current_stream(x));
    });
    context->save_for_backward({rows, padded});
    keep(context, head);
    context->saved_data["shape"] = x.sizes().vec();
    return losses.sum().mul(scale);
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto saved = context->get_saved_variables();
    const auto& [table, overwrites] = kept<Head>(context);
    const CudaLibrary& cuda = *cuda_library(saved[0]);
    const at::Tensor dlogits = saved[1].narrow(1, 0, table.value.size(0));
    const at::Tensor& factor = upstream[0];
    const auto scaled = [&](const at::Tensor& rows) {  // in float32, so that the factor is not rounded
      return rows.to(at::kFloat).mul(factor).to(rows.scalar_type());
    };
    multiply(cuda, dlogits.t(), scaled(saved[0]), table.gradient, {.accumulate = !overwrites});
    const at::Tensor dx = at::empty_like(saved[0]);
    multiply(cuda, dlogits, table.value, dx);
    return {scaled(dx).view(context->saved_data["shape"].toIntVector()), {}, {}};
  }
};

// Of a few rows, in float32 whatever the weights are.
at::Tensor decode_logits(const at::Tensor& x, const at::Tensor& table) {
  const at::Tensor rows = x.reshape({-1, x.size(-1)}).contiguous();
  const at::Tensor out = at::empty({rows.size(0), table.size(0)}, rows.options().dtype(at::kFloat));
  auto shape = x.sizes().vec();
  shape.back() = table.size(0);
  if (const CudaLibrary* const cuda = cuda_library(x)) {
    with_kernels(*cuda, rows, [&](const auto& kernels, auto element) {
      using Element = decltype(element);
      kernels.rows_times_transposed(elements<Element>(rows), elements<Element>(table), elements<float>(out),
                                    rows.size(0), rows.size(1), table.size(0), current_stream(rows));
    });
    return out.view(shape);
  }
  parallel_parts(table.size(0), 16, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    if (table.scalar_type() == at::kBFloat16) {
      cpu_kernels().rows_times_transposed_bfloat16(elements<float>(rows), elements<std::uint16_t>(table),
                                                   elements<float>(out), rows.size(0), rows.size(1), table.size(0),
                                                   begin, end);
    } else {
      cpu_kernels().rows_times_transposed(elements<float>(rows), elements<float>(table), elements<float>(out),
                                          rows.size(0), rows.size(1), table.size(0), begin, end);
    }
  });
  return out.view(shape);
}

// x table^T with columns behind it, in whose place softmax finds nothing. Products in bfloat16 are slow on a GPU where
// rows do not begin at multiples of 16 bytes, as those of GPT-2's 50,257 logits would not.
at::Tensor padded_logits(const at::Tensor& rows, const at::Tensor& table) {
  constexpr std::int64_t unit = 64;
  const std::int64_t vocabulary = table.size(0), width = (vocabulary + unit - 1) / unit * unit;
  const at::Tensor nothing = at::zeros({width}, table.options().requires_grad(false));
  nothing.slice(0, vocabulary).fill_(-std::numeric_limits<float>::infinity());
  return at::addmm(nothing, rows, at::constant_pad_nd(table, {0, 0, 0, width - vocabulary}).t());
}

}  // namespace

at::Tensor head_cross_entropy(const at::Tensor& x, const Weight& table, const at::Tensor& targets,
                              const Context& context) {
  RECORD_FUNCTION("head_cross_entropy", std::vector<c10::IValue>());
  if (context.kernels == Kernels::fused && cuda_library(x)) {
    return DeviceHead::apply(x, targets, DeviceHead::Head{table, context.overwrites});
  }
  if (context.kernels == Kernels::fused) return FusedHead::apply(x, table, targets, context.overwrites);
  const at::Tensor rows = x.reshape({-1, x.size(-1)});
  const bool padded = x.scalar_type() == at::kBFloat16 && table.value.size(0) % 8 != 0;
  const at::Tensor logits = padded ? padded_logits(rows, table.value) : at::matmul(rows, table.value.t());
  // The softmax is taken in float32 whatever the dtype of the products is.
  return at::cross_entropy_loss(logits.to(at::kFloat), targets.reshape({-1}), {}, 1 /* mean */, not_scored);
}

at::Tensor head_logits(const at::Tensor& x, const Weight& table, const Context& context) {
  RECORD_FUNCTION("head_logits", std::vector<c10::IValue>());
  if (context.kernels == Kernels::fused && context.decoding) return decode_logits(x, table.value);
  return at::matmul(x, (fused_on_cpu(x, context) ? table.in_float32() : table.value).t());
}

}  // namespace inkling
