#include "ops/embedding.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/cpu_kernels.h"
#include "ops/cuda_library.h"
#include "ops/parallel.h"

namespace inkling {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

struct FusedEmbedding : Function<FusedEmbedding> {
  // token_table is an argument only so that autograd records the operation: tokens themselves have no gradient.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& token_table, const at::Tensor& tokens,
                            const EmbeddingWeights& weights, bool overwrites) {
    const std::int64_t time = tokens.size(1);
    const std::int64_t channels = token_table.size(1);
    const at::Tensor ids = tokens.contiguous();
    const at::Tensor out = at::empty({tokens.size(0), time, channels}, token_table.options().requires_grad(false));
    context->save_for_backward({ids});
    context->saved_data["tokens"] = weights.tokens.gradient;
    context->saved_data["positions"] = weights.positions.gradient;
    context->saved_data["overwrites"] = overwrites;
    if (const CudaLibrary* const cuda = cuda_library(out)) {
      with_kernels(*cuda, out, [&](const auto& kernels, auto element) {
        using Element = decltype(element);
        kernels.embedding_forward(elements<std::int64_t>(ids), nullptr, elements<Element>(token_table),
                                  elements<Element>(weights.positions.value), elements<Element>(out), ids.numel(), time,
                                  channels, current_stream(out));
      });
      return out;
    }
    parallel_parts(ids.numel(), 64, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
      cpu_kernels().embedding_forward(ids.data_ptr<std::int64_t>(), token_table.data_ptr<float>(),
                                      weights.positions.value.data_ptr<float>(), out.data_ptr<float>(), begin,
                                      end - begin, time, channels);
    });
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const at::Tensor ids = context->get_saved_variables()[0];
    const at::Tensor dout = upstream[0].contiguous();
    const at::Tensor dtokens = context->saved_data["tokens"].toTensor();
    const at::Tensor dpositions = context->saved_data["positions"].toTensor();
    const std::int64_t channels = dout.size(2);
    // The token table's gradient is there already: it is the head's table too, and the head comes first.
    if (context->saved_data["overwrites"].toBool()) dpositions.zero_();
    if (const CudaLibrary* const cuda = cuda_library(dout)) {
      const auto [sorted, order] = ids.flatten().sort(true /* stable */, 0, false);
      with_kernels(*cuda, dout, [&](const auto& kernels, auto element) {
        kernels.embedding_backward(elements<std::int64_t>(sorted), elements<std::int64_t>(order),
                                   elements<decltype(element)>(dout), elements<float>(dtokens),
                                   elements<float>(dpositions),
                                   elements<float>(cuda_scratch(dout, embedding_scratch(ids.numel(), channels))),
                                   ids.numel(), ids.size(1), channels, current_stream(dout));
      });
      return {{}, {}, {}, {}};
    }
    parallel_parts(channels, 16, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
      cpu_kernels().embedding_backward(ids.data_ptr<std::int64_t>(), dout.data_ptr<float>(), dtokens.data_ptr<float>(),
                                       dpositions.data_ptr<float>(), ids.numel(), ids.size(1), channels, begin, end);
    });
    return {{}, {}, {}, {}};
  }
};

}  // namespace

at::Tensor embedding(const at::Tensor& tokens, const EmbeddingWeights& weights, const Context& context) {
  RECORD_FUNCTION("embedding", std::vector<c10::IValue>());
  const Weight& table = weights.tokens;
  if (context.kernels == Kernels::fused && (table.value.scalar_type() == at::kFloat || cuda_library(table.value))) {
    return FusedEmbedding::apply(table.value, tokens, weights, context.overwrites);
  }
  at::Tensor token = at::embedding(table.value, tokens);
  if (fused_on_cpu(token, context)) token = token.to(at::kFloat);
  return token + weights.positions.value.narrow(0, 0, tokens.size(1));  // float32 where one of the two is
}

at::Tensor embedding_at(const at::Tensor& tokens, const at::Tensor& positions, const EmbeddingWeights& weights,
                        const Context& context) {
  const at::Tensor& table = weights.tokens.value;
  if (const CudaLibrary* const cuda = context.kernels == Kernels::fused ? cuda_library(table) : nullptr) {
    const at::Tensor out = at::empty({tokens.size(0), 1, table.size(1)}, table.options().requires_grad(false));
    const at::Tensor ids = tokens.contiguous(), places = positions.contiguous();
    with_kernels(*cuda, table, [&](const auto& kernels, auto element) {
      using Element = decltype(element);
      kernels.embedding_forward(elements<std::int64_t>(ids), elements<std::int64_t>(places), elements<Element>(table),
                                elements<Element>(weights.positions.value), elements<Element>(out), tokens.size(0), 1,
                                table.size(1), current_stream(out));
    });
    return out;
  }
  at::Tensor token = at::embedding(table, tokens);
  if (fused_on_cpu(token, context)) token = token.to(at::kFloat);
  return (token + at::embedding(weights.positions.value, positions)).unsqueeze(1);
}

}  // namespace inkling
