#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>

#include "backend/cpu/backend.h"
#include "backend/elements.h"
#include "kernels/cpu_kernels.h"
#include "runtime/parallel.h"

namespace inkling::cpu {
namespace {

// Where an attention head lies in tensors [B, T, H D] and [B, H, T].
struct HeadPlace {
  std::int64_t out = 0, logsumexp = 0;
};

// Calls body(head, place, scratch) for each row and query head of packed queries, keys and values. One thread takes all
// heads that share keys and values, in order. Dilated attention is local attention within each of `dilation`
// interleaved texts, each with heads of its own.
template <typename Body>
void for_each_head(const at::Tensor& qkv, const AttentionForm& form, const DropoutPlace& dropout, const Body& body) {
  const std::int64_t time = qkv.size(1), texts = std::min(form.pattern.dilation, time);
  const std::int64_t scratch_size =
      cpu_kernels().attention_scratch((time + texts - 1) / texts, form.head_size, form.pattern.window);
  const at::Tensor scratch = at::empty({at::get_num_threads(), scratch_size}, qkv.options().requires_grad(false));
  const std::uint64_t key = dropout_stream(dropout);
  const auto attend = [&](std::int64_t row, std::int64_t text, std::int64_t number, float* own_scratch) {
    const std::int64_t column = number * form.head_size, shared = number / form.group() * form.head_size;
    const std::int64_t first = row * time + text, index = row * form.n_head + number;
    const float* const token = qkv.data_ptr<float>() + first * form.packed();
    const AttentionHead head = {.queries = token + column,
                                .keys = token + form.queries() + shared,
                                .values = token + form.queries() + form.keys() + shared,
                                .row = texts * form.packed(),
                                .out_row = texts * form.queries(),
                                .time = (time - text + texts - 1) / texts,
                                .head_size = form.head_size,
                                .window = form.pattern.window,
                                .is_first_of_group = number % form.group() == 0,
                                .index = index,
                                .text = time,
                                .first = text,
                                .step = texts,
                                .dropout_key = key,
                                .dropout_threshold = dropout_threshold(dropout.probability),
                                .dropout_scale = dropout_scale(dropout.probability)};
    const std::int64_t before = text * (time / texts) + std::min(text, time % texts);  // rows of the texts before
    body(head, HeadPlace{first * form.queries() + column, index * time + before}, own_scratch);
  };
  const std::int64_t tasks = qkv.size(0) * texts * form.n_kv_head;
  parallel_parts(tasks, 1, [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t text = task / form.n_kv_head, shared = task % form.n_kv_head;
      for (std::int64_t number = shared * form.group(); number < (shared + 1) * form.group(); ++number) {
        attend(text / texts, text % texts, number, scratch.data_ptr<float>() + part * scratch_size);
      }
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
  for_each_head(qkv, form, dropout, [&](const AttentionHead& head, const HeadPlace& place, float* scratch) {
    cpu_kernels().attention_forward(head, out.data_ptr<float>() + place.out,
                                    logsumexp.data_ptr<float>() + place.logsumexp, scratch);
  });
  return {.out = out, .saved = {qkv, out, logsumexp}};
}

at::Tensor attention_backward(const at::Tensor& dout, const Attended& forward, const AttentionForm& form,
                              const DropoutPlace& dropout) {
  const at::Tensor &qkv = forward.saved[0], &out = forward.saved[1], &logsumexp = forward.saved[2];
  const at::Tensor dqkv = at::empty_like(qkv);
  const auto gradient = [&](const float* of) { return dqkv.data_ptr<float>() + (of - qkv.data_ptr<float>()); };
  for_each_head(qkv, form, dropout, [&](const AttentionHead& head, const HeadPlace& place, float* scratch) {
    cpu_kernels().attention_backward(head, out.data_ptr<float>() + place.out,
                                     logsumexp.data_ptr<float>() + place.logsumexp, dout.data_ptr<float>() + place.out,
                                     gradient(head.queries), gradient(head.keys), gradient(head.values), scratch);
  });
  return dqkv;
}

}  // namespace inkling::cpu
