#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "backend/cpu/backend.h"
#include "backend/elements.h"
#include "kernels/cpu_kernels.h"
#include "runtime/parallel.h"

namespace inkling::cpu {
namespace {

// Calls body(head, place, scratch) for each row and head of packed queries, keys and values [B, T, 3C]. place is the
// index of the head's first element in a tensor [B, T, C].
template <typename Body>
void for_each_head(const at::Tensor& qkv, std::int64_t n_head, const DropoutPlace& dropout, const Body& body) {
  const std::int64_t time = qkv.size(1), channels = qkv.size(2) / 3, head_size = channels / n_head;
  const std::int64_t scratch_size = cpu_kernels().attention_scratch(time, head_size);
  const at::Tensor scratch = at::empty({at::get_num_threads(), scratch_size}, qkv.options().requires_grad(false));
  const std::uint64_t key = dropout_stream(dropout);
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
                                  .dropout_key = key,
                                  .dropout_threshold = dropout_threshold(dropout.probability),
                                  .dropout_scale = dropout_scale(dropout.probability)};
      body(head, row * time * channels + column, scratch.data_ptr<float>() + part * scratch_size);
    }
  });
}

}  // namespace

Attended attention(const at::Tensor& qkv, std::int64_t n_head, const DropoutPlace& dropout) {
  const at::Tensor out = at::empty({qkv.size(0), qkv.size(1), qkv.size(2) / 3}, qkv.options().requires_grad(false));
  const at::Tensor logsumexp = at::empty({qkv.size(0), n_head, qkv.size(1)}, out.options());
  for_each_head(qkv, n_head, dropout, [&](const AttentionHead& head, std::int64_t place, float* scratch) {
    cpu_kernels().attention_forward(head, out.data_ptr<float>() + place,
                                    logsumexp.data_ptr<float>() + head.index * head.time, scratch);
  });
  return {.out = out, .saved = {qkv, out, logsumexp}};
}

at::Tensor attention_backward(const at::Tensor& dout, const Attended& forward, std::int64_t n_head,
                              const DropoutPlace& dropout) {
  const at::Tensor &qkv = forward.saved[0], &out = forward.saved[1], &logsumexp = forward.saved[2];
  const at::Tensor dqkv = at::empty_like(qkv);
  for_each_head(qkv, n_head, dropout, [&](const AttentionHead& head, std::int64_t place, float* scratch) {
    float* const dqueries = dqkv.data_ptr<float>() + (head.queries - qkv.data_ptr<float>());
    cpu_kernels().attention_backward(
        head, out.data_ptr<float>() + place, logsumexp.data_ptr<float>() + head.index * head.time,
        dout.data_ptr<float>() + place, dqueries, dqueries + head.out_row, dqueries + 2 * head.out_row, scratch);
  });
  return dqkv;
}

}  // namespace inkling::cpu
