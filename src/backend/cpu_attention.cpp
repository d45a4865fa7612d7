#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <vector>

#include "backend/cpu_backend.h"
#include "backend/elements.h"
#include "kernels/cpu_kernels.h"
#include "runtime/parallel.h"

namespace inkling::cpu {
namespace {

// Where an attention head lies in tensors [B, T, H D] and [B, H, T].
struct HeadPlace {
  std::int64_t out = 0, logsumexp = 0;
};

// Tokens of a row that attend to each other alone: column `first`, first + step, … In [B, H, T] they lie side by side,
// from place `before` of the row on.
struct Text {
  std::int64_t row, first, step, time, before;
};

// Returns the texts of all rows: each document, or, as dilated attention is local attention within each of `dilation`
// interleaved texts, each of these.
std::vector<Text> texts_of(std::int64_t rows, std::int64_t time, std::int64_t dilation, const at::Tensor& positions) {
  std::vector<Text> texts;
  const std::int64_t* const position = elements<std::int64_t>(positions);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t begin = 0, end = 0; begin < time; begin = end) {
      end = begin + 1;
      if (position == nullptr) end = time;
      while (end < time && position[row * time + end] != 0) ++end;
      const std::int64_t length = end - begin, step = std::min(dilation, length);
      std::int64_t before = begin;
      for (std::int64_t i = 0; i < step; ++i) {
        texts.push_back({row, begin + i, step, (length - i + step - 1) / step, before});
        before += texts.back().time;
      }
    }
  }
  return texts;
}

// Calls body(head, place, scratch) for each text and query head of packed queries, keys and values. One thread takes
// all heads that share keys and values, in order.
template <typename Body>
void for_each_head(const at::Tensor& qkv, const AttentionForm& form, const DropoutPlace& dropout,
                   const at::Tensor& positions, const Body& body) {
  const std::int64_t time = qkv.size(1), dilation = std::min(form.pattern.dilation, time);
  const std::int64_t longest = (time + dilation - 1) / dilation;
  const std::int64_t scratch_size = cpu_kernels().attention_scratch(longest, form.head_size, form.pattern.window);
  const at::Tensor scratch = at::empty({at::get_num_threads(), scratch_size}, qkv.options().requires_grad(false));
  const std::uint64_t key = dropout_stream(dropout);
  const std::int64_t heads_before = first_row(dropout) * form.n_head;  // of rows of the batch
  const auto attend = [&](const Text& text, std::int64_t number, float* own_scratch) {
    const std::int64_t column = number * form.head_size, shared = number / form.group() * form.head_size;
    const std::int64_t first = text.row * time + text.first, index = text.row * form.n_head + number;
    const float* const token = qkv.data_ptr<float>() + first * form.packed();
    const AttentionHead head = {.queries = token + column,
                                .keys = token + form.queries() + shared,
                                .values = token + form.queries() + form.keys() + shared,
                                .row = text.step * form.packed(),
                                .out_row = text.step * form.queries(),
                                .time = text.time,
                                .head_size = form.head_size,
                                .window = form.pattern.window,
                                .is_first_of_group = number % form.group() == 0,
                                .index = heads_before + index,
                                .text = time,
                                .first = text.first,
                                .step = text.step,
                                .dropout_key = key,
                                .dropout_threshold = dropout_threshold(dropout.probability),
                                .dropout_scale = dropout_scale(dropout.probability)};
    body(head, HeadPlace{first * form.queries() + column, index * time + text.before}, own_scratch);
  };
  const std::vector<Text> texts = texts_of(qkv.size(0), time, dilation, positions);
  const std::int64_t tasks = static_cast<std::int64_t>(texts.size()) * form.n_kv_head;
  parallel_parts(tasks, 1, [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      const Text& text = texts[static_cast<std::size_t>(task / form.n_kv_head)];
      const std::int64_t shared = task % form.n_kv_head;
      for (std::int64_t number = shared * form.group(); number < (shared + 1) * form.group(); ++number) {
        attend(text, number, scratch.data_ptr<float>() + part * scratch_size);
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

Attended attention(const at::Tensor& qkv, const AttentionForm& form, const DropoutPlace& dropout,
                   const at::Tensor& positions) {
  const at::Tensor out = at::empty({qkv.size(0), qkv.size(1), form.queries()}, qkv.options().requires_grad(false));
  const at::Tensor logsumexp = at::empty({qkv.size(0), form.n_head, qkv.size(1)}, out.options());
  for_each_head(qkv, form, dropout, positions, [&](const AttentionHead& head, const HeadPlace& place, float* scratch) {
    cpu_kernels().attention_forward(head, out.data_ptr<float>() + place.out,
                                    logsumexp.data_ptr<float>() + place.logsumexp, scratch);
  });
  return {.out = out, .saved = {qkv, out, logsumexp}};
}

at::Tensor attention_backward(const at::Tensor& dout, const Attended& forward, const AttentionForm& form,
                              const DropoutPlace& dropout, const at::Tensor& positions) {
  const at::Tensor &qkv = forward.saved[0], &out = forward.saved[1], &logsumexp = forward.saved[2];
  const at::Tensor dqkv = at::empty_like(qkv);
  const auto gradient = [&](const float* of) { return dqkv.data_ptr<float>() + (of - qkv.data_ptr<float>()); };
  for_each_head(qkv, form, dropout, positions, [&](const AttentionHead& head, const HeadPlace& place, float* scratch) {
    cpu_kernels().attention_backward(head, out.data_ptr<float>() + place.out,
                                     logsumexp.data_ptr<float>() + place.logsumexp, dout.data_ptr<float>() + place.out,
                                     gradient(head.queries), gradient(head.keys), gradient(head.values), scratch);
  });
  return dqkv;
}

}  // namespace inkling::cpu
