#include "ops/attention.h"

#include <ATen/Context.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention_backward.h>
#include <ATen/ops/_scaled_dot_product_flash_attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_backward.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <limits>
#include <tuple>
#include <vector>

#include "kernels/cpu_kernels.h"
#include "ops/cuda_library.h"
#include "ops/dropout.h"
#include "ops/kept.h"
#include "ops/parallel.h"

namespace inkling {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// Views [B, H, T, D] of packed queries (part 0), keys (1) or values (2): nothing is copied.
at::Tensor heads(const at::Tensor& qkv, std::int64_t n_head, std::int64_t part) {
  const std::int64_t head_size = qkv.size(2) / 3 / n_head;
  return qkv.view({qkv.size(0), qkv.size(1), 3, n_head, head_size}).select(2, part).transpose(1, 2);
}

// [B, H, T, D] -> [B, T, C]
at::Tensor concatenate_heads(const at::Tensor& out) {
  return out.transpose(1, 2).reshape({out.size(0), out.size(2), out.size(1) * out.size(3)});
}

// One call for each row and head of packed queries, keys and values [B, T, 3 C]: body(head, place, scratch), where
// place is that of the head's first element in a tensor [B, T, C].
template <typename Body>
void for_each_head(const at::Tensor& qkv, std::int64_t n_head, std::uint64_t dropout_key, double dropout,
                   const Body& body) {
  const std::int64_t time = qkv.size(1), channels = qkv.size(2) / 3, head_size = channels / n_head;
  const std::int64_t scratch_size = cpu_kernels().attention_scratch(time, head_size);
  const at::Tensor scratch = at::empty({at::get_num_threads(), scratch_size}, qkv.options().requires_grad(false));
  parallel_parts(qkv.size(0) * n_head, 1, [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = i / n_head, column = i % n_head * head_size;
      const float* const queries = qkv.data_ptr<float>() + row * time * 3 * channels + column;
      const AttentionHead head = {.queries = queries,
                                  .keys = queries + channels,
                                  .values = queries + 2 * channels,
                                  .row = 3 * channels,
                                  .out_row = channels,
                                  .time = time,
                                  .head_size = head_size,
                                  .index = i,
                                  .dropout_key = dropout_key,
                                  .dropout_threshold = dropout_threshold(dropout),
                                  .dropout_scale = static_cast<float>(1.0 / (1.0 - dropout))};
      body(head, row * time * channels + column, scratch.data_ptr<float>() + part * scratch_size);
    }
  });
}

struct FusedAttention : Function<FusedAttention> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& packed, std::int64_t n_head,
                            std::uint64_t dropout_key, double dropout) {
    const at::Tensor qkv = packed.contiguous();
    const at::Tensor out = at::empty({qkv.size(0), qkv.size(1), qkv.size(2) / 3}, qkv.options().requires_grad(false));
    const at::Tensor logsumexp = at::empty({qkv.size(0), n_head, qkv.size(1)}, out.options());
    for_each_head(qkv, n_head, dropout_key, dropout,
                  [&](const AttentionHead& head, std::int64_t place, float* scratch) {
                    cpu_kernels().attention_forward(head, out.data_ptr<float>() + place,
                                                    logsumexp.data_ptr<float>() + head.index * head.time, scratch);
                  });
    context->save_for_backward({qkv, out, logsumexp});
    context->saved_data["n_head"] = n_head;
    context->saved_data["dropout_key"] = static_cast<std::int64_t>(dropout_key);
    context->saved_data["dropout"] = dropout;
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto saved = context->get_saved_variables();
    const at::Tensor& qkv = saved[0];
    const at::Tensor dout = upstream[0].contiguous();
    const at::Tensor dqkv = at::empty_like(qkv);
    const auto dropout_key = static_cast<std::uint64_t>(context->saved_data["dropout_key"].toInt());
    for_each_head(qkv, context->saved_data["n_head"].toInt(), dropout_key, context->saved_data["dropout"].toDouble(),
                  [&](const AttentionHead& head, std::int64_t place, float* scratch) {
                    float* const dqueries = dqkv.data_ptr<float>() + (head.queries - qkv.data_ptr<float>());
                    cpu_kernels().attention_backward(head, saved[1].data_ptr<float>() + place,
                                                     saved[2].data_ptr<float>() + head.index * head.time,
                                                     dout.data_ptr<float>() + place, dqueries, dqueries + head.out_row,
                                                     dqueries + 2 * head.out_row, scratch);
                  });
    return {dqkv, {}, {}, {}};
  }
};

// LibTorch's attention on a GPU, on views of the packed tensor: FlashAttention 2 (Dao 2023), whose backward pass can be
// deterministic, or cuDNN's, which is faster, is not, and cannot do everything. Called without LibTorch's autograd,
// whose backward pass through the views would fill and add three tensors of the size of qkv.
struct DeviceAttention : Function<DeviceAttention> {
  struct State {
    std::int64_t n_head;
    double dropout;
    bool flash;
    c10::SymInt longest_queries = 0, longest_keys = 0;
  };

  static at::Tensor forward(AutogradContext* context, const at::Tensor& qkv, State state) {
    const at::Tensor q = heads(qkv, state.n_head, 0), k = heads(qkv, state.n_head, 1), v = heads(qkv, state.n_head, 2);
    at::Tensor out, logsumexp, first_queries, first_keys, random, more_random;
    if (state.flash) {
      std::tie(out, logsumexp, first_queries, first_keys, state.longest_queries, state.longest_keys, random,
               more_random, std::ignore) = at::_scaled_dot_product_flash_attention(q, k, v, state.dropout, true);
    } else {
      std::tie(out, logsumexp, first_queries, first_keys, state.longest_queries, state.longest_keys, random,
               more_random, std::ignore) =
          at::_scaled_dot_product_cudnn_attention(q, k, v, {}, true, state.dropout, true);
    }
    context->save_for_backward({qkv, out, logsumexp, first_queries, first_keys, random, more_random});
    keep(context, state);
    return concatenate_heads(out);
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto saved = context->get_saved_variables();
    const State& state = kept<State>(context);
    const at::Tensor& qkv = saved[0];
    const at::Tensor q = heads(qkv, state.n_head, 0), k = heads(qkv, state.n_head, 1), v = heads(qkv, state.n_head, 2);
    const at::Tensor dout = upstream[0].contiguous().view({q.size(0), q.size(2), q.size(1), q.size(3)}).transpose(1, 2);
    at::Tensor dq, dk, dv;
    if (state.flash) {
      std::tie(dq, dk, dv) = at::_scaled_dot_product_flash_attention_backward_symint(
          dout, q, k, v, saved[1], saved[2], saved[3], saved[4], state.longest_queries, state.longest_keys,
          state.dropout, true, saved[5], saved[6]);
    } else {
      std::tie(dq, dk, dv) = at::_scaled_dot_product_cudnn_attention_backward_symint(
          dout, q, k, v, saved[1], saved[2], saved[5], saved[6], {}, saved[3], saved[4], state.longest_queries,
          state.longest_keys, state.dropout, true);
    }
    const at::Tensor dqkv = at::empty_like(qkv);
    heads(dqkv, state.n_head, 0).copy_(dq);
    heads(dqkv, state.n_head, 1).copy_(dk);
    heads(dqkv, state.n_head, 2).copy_(dv);
    return {dqkv, {}};
  }
};

// What FlashAttention and cuDNN can do; the rest is left to LibTorch's choice.
bool has_device_attention(const at::Tensor& qkv, std::int64_t n_head) {
  const std::int64_t head_size = qkv.size(2) / 3 / n_head;
  return qkv.is_cuda() && qkv.scalar_type() == at::kBFloat16 && head_size % 8 == 0 && head_size <= 128;
}

// The textbook's composition, with dropout on the probabilities from the counter-based generator.
at::Tensor composed_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, Context& context) {
  const std::int64_t time = q.size(2);
  const at::Tensor future = at::ones({time, time}, q.options().dtype(at::kBool).requires_grad(false)).triu(1);
  const at::Tensor scores = at::matmul(q, k.transpose(-2, -1)).div(std::sqrt(static_cast<double>(q.size(3))));
  const at::Tensor masked = scores.masked_fill(future, -std::numeric_limits<float>::infinity());
  return at::matmul(dropout(at::softmax(masked, -1), context), v);
}

at::Tensor cached_attention_on_gpu(const CudaLibrary& cuda, const at::Tensor& qkv, std::int64_t n_head,
                                   const CachedLayer& cache, const at::Tensor& lengths) {
  const std::int64_t batch = qkv.size(0), channels = qkv.size(2) / 3, block = cache.keys.size(2);
  const at::Tensor out = at::empty({batch, 1, channels}, qkv.options());
  const at::Tensor scratch = cuda_scratch(qkv, attend_scratch(batch, n_head, channels / n_head, block));
  with_kernels(cuda, qkv, [&](const auto& kernels, auto element) {
    using Element = decltype(element);
    kernels.attend_cached(elements<Element>(qkv), elements<Element>(cache.keys), elements<Element>(cache.values),
                          elements<std::int64_t>(lengths), elements<Element>(out), elements<float>(scratch),
                          elements<std::uint32_t>(cache.arrivals), batch, n_head, channels / n_head, block,
                          current_stream(qkv));
  });
  return out;
}

}  // namespace

bool cudnn_attends(std::int64_t time, double dropout) {
  const double sixteenths = 16 * dropout;
  return time > 1 && sixteenths == std::floor(sixteenths);
}

at::Tensor causal_attention(const at::Tensor& qkv, std::int64_t n_head, Context& context) {
  RECORD_FUNCTION("causal_attention", std::vector<c10::IValue>());
  const bool fused = context.kernels == Kernels::fused;
  if (fused && has_device_attention(qkv, n_head)) {
    if (context.dropout > 0.0)
      ++context.dropout_site;  // as where the numbers are ours, so that other sites have the same
    const bool flash = at::globalContext().deterministicAlgorithms() || !cudnn_attends(qkv.size(1), context.dropout);
    return DeviceAttention::apply(qkv.contiguous(), DeviceAttention::State{n_head, context.dropout, flash});
  }
  if (fused_on_cpu(qkv, context)) {
    const std::uint64_t key = context.dropout > 0.0 ? context.next_dropout_key() : 0;
    return FusedAttention::apply(qkv, n_head, key, context.dropout);
  }
  const at::Tensor q = heads(qkv, n_head, 0);
  const at::Tensor k = heads(qkv, n_head, 1);
  const at::Tensor v = heads(qkv, n_head, 2);
  if (context.dropout > 0.0 && (qkv.is_cpu() || fused)) return concatenate_heads(composed_attention(q, k, v, context));
  return concatenate_heads(at::scaled_dot_product_attention(q, k, v, {}, context.dropout, true));
}

KeyValueCache::KeyValueCache(std::int64_t n_layer, std::int64_t rows, std::int64_t n_head, std::int64_t block_size,
                             std::int64_t head_size, const at::TensorOptions& options)
    : lengths(at::zeros({rows}, options.dtype(at::kLong))) {
  for (std::int64_t layer = 0; layer < n_layer; ++layer) {
    const auto positions = [&] { return at::zeros({rows, n_head, block_size, head_size}, options); };
    layers.push_back({positions(), positions(), at::zeros({rows, n_head}, options.dtype(at::kInt))});
  }
}

void fill_cache(const at::Tensor& qkv, std::int64_t n_head, const CachedLayer& cache) {
  cache.keys.narrow(2, 0, qkv.size(1)).copy_(heads(qkv, n_head, 1));
  cache.values.narrow(2, 0, qkv.size(1)).copy_(heads(qkv, n_head, 2));
}

at::Tensor cached_attention(const at::Tensor& qkv, std::int64_t n_head, const CachedLayer& cache,
                            const at::Tensor& lengths, const Context& context) {
  RECORD_FUNCTION("cached_attention", std::vector<c10::IValue>());
  const CudaLibrary* const cuda = context.kernels == Kernels::fused ? cuda_library(qkv) : nullptr;
  if (cuda != nullptr) return cached_attention_on_gpu(*cuda, qkv, n_head, cache, lengths);
  const at::Tensor column = lengths.view({-1, 1, 1, 1}).expand({-1, n_head, 1, cache.keys.size(3)});
  cache.keys.scatter_(2, column, heads(qkv, n_head, 1));
  cache.values.scatter_(2, column, heads(qkv, n_head, 2));
  const at::Tensor visible =
      at::arange(cache.keys.size(2), lengths.options()).view({1, 1, 1, -1}).le(lengths.view({-1, 1, 1, 1}));
  return concatenate_heads(at::scaled_dot_product_attention(heads(qkv, n_head, 0), cache.keys, cache.values, visible));
}

}  // namespace inkling
