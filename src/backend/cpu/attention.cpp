#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "backend/cpu/backend.h"
#include "backend/elements.h"
#include "kernels/cpu_kernels.h"
#include "runtime/parallel.h"

namespace inkling::cpu {
namespace {

// Calls body(head, place, scratch) for each row and query head of packed queries, keys and values. place is the index
// of the head's first element in a tensor [B, T, H D]. One thread takes all heads that share keys and values, in order.
template <typename Body>
void for_each_head(const at::Tensor& qkv, const AttentionForm& form, const DropoutPlace& dropout, const Body& body) {
  const std::int64_t time = qkv.size(1);
  const std::int64_t scratch_size = cpu_kernels().attention_scratch(time, form.head_size);
  const at::Tensor scratch = at::empty({at::get_num_threads(), scratch_size}, qkv.options().requires_grad(false));
  const std::uint64_t key = dropout_stream(dropout);
  parallel_parts(qkv.size(0) * form.n_kv_head, 1, [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin * form.group(); i < end * form.group(); ++i) {
      const std::int64_t row = i / form.n_head, column = i % form.n_head * form.head_size;
      const std::int64_t shared = i % form.n_head / form.group() * form.head_size;
      const float* const token = qkv.data_ptr<float>() + row * time * form.packed();
      const AttentionHead head = {.queries = token + column,
                                  .keys = token + form.queries() + shared,
                                  .values = token + form.queries() + form.keys() + shared,
                                  .row = form.packed(),
                                  .out_row = form.queries(),
                                  .time = time,
                                  .head_size = form.head_size,
                                  .is_first_of_group = i % form.group() == 0,
                                  .index = i,
                                  .dropout_key = key,
                                  .dropout_threshold = dropout_threshold(dropout.probability),
                                  .dropout_scale = dropout_scale(dropout.probability)};
      body(head, row * time * form.queries() + column, scratch.data_ptr<float>() + part * scratch_size);
    }
  });
}

}  // namespace

at::Tensor rotate(const at::Tensor& qkv, const AttentionForm& form, const Rotation& rotation, bool back) {
  const at::Tensor in = qkv.contiguous(), out = at::empty_like(in);
  const AngleTable angles = {.cosines = floats(rotation.cosines),
                             .sines = floats(rotation.sines),
                             .rows = rotation.cosines.size(0),
                             .sign = back ? -1.0f : 1.0f};
  parallel_parts(in.numel() / form.packed(), 16, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    cpu_kernels().rotate(floats(in), floats(out), angles, begin, end - begin, form.packed(),
                         form.n_head + form.n_kv_head, form.head_size);
  });
  return out;
}

Attended attention(const at::Tensor& qkv, const AttentionForm& form, const DropoutPlace& dropout) {
  const at::Tensor out = at::empty({qkv.size(0), qkv.size(1), form.queries()}, qkv.options().requires_grad(false));
  const at::Tensor logsumexp = at::empty({qkv.size(0), form.n_head, qkv.size(1)}, out.options());
  for_each_head(qkv, form, dropout, [&](const AttentionHead& head, std::int64_t place, float* scratch) {
    cpu_kernels().attention_forward(head, out.data_ptr<float>() + place,
                                    logsumexp.data_ptr<float>() + head.index * head.time, scratch);
  });
  return {.out = out, .saved = {qkv, out, logsumexp}};
}

at::Tensor attention_backward(const at::Tensor& dout, const Attended& forward, const AttentionForm& form,
                              const DropoutPlace& dropout) {
  const at::Tensor &qkv = forward.saved[0], &out = forward.saved[1], &logsumexp = forward.saved[2];
  const at::Tensor dqkv = at::empty_like(qkv);
  const auto gradient = [&](const float* of) { return dqkv.data_ptr<float>() + (of - qkv.data_ptr<float>()); };
  for_each_head(qkv, form, dropout, [&](const AttentionHead& head, std::int64_t place, float* scratch) {
    cpu_kernels().attention_backward(
        head, out.data_ptr<float>() + place, logsumexp.data_ptr<float>() + head.index * head.time,
        dout.data_ptr<float>() + place, gradient(head.queries), gradient(head.keys), gradient(head.values), scratch);
  });
  return dqkv;
}

}  // namespace inkling::cpu
