#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/_flash_attention_backward.h>
#include <ATen/ops/_flash_attention_forward.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention_backward.h>
#include <ATen/ops/_scaled_dot_product_flash_attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_backward.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <vector>

#include "backend/cuda_backend.h"
#include "backend/heads.h"

namespace inkling::cuda {
namespace {

// [B, T, H D] -> [B, H, T, D]
at::Tensor heads_of(const at::Tensor& out, std::int64_t n_head) {
  return out.view({out.size(0), out.size(1), n_head, -1}).transpose(1, 2);
}

// Whether to take FlashAttention 2 (Dao 2023), whose backward pass can be deterministic, rather than cuDNN's attention,
// which is faster, but not deterministic, and cannot compute everything. Both take grouped queries as they are, but
// cuDNN's in LibTorch has never been seen to do so.
bool takes_flash(const at::Tensor& qkv, const AttentionForm& form, double dropout) {
  return form.group() > 1 || at::globalContext().deterministicAlgorithms() || !cudnn_attends(qkv.size(1), dropout);
}

// They are called without LibTorch's autograd, whose backward pass through the views would fill and add three tensors
// of the size of qkv.
Attended one_kernel(const at::Tensor& qkv, const AttentionForm& form, double dropout) {
  const auto [q, k, v] = split_heads(qkv, form);
  at::Tensor out, logsumexp, first_queries, first_keys, random, more_random;
  c10::SymInt queries = 0, keys = 0;
  if (takes_flash(qkv, form, dropout)) {
    std::tie(out, logsumexp, first_queries, first_keys, queries, keys, random, more_random, std::ignore) =
        at::_scaled_dot_product_flash_attention(q, k, v, dropout, true);
  } else {
    std::tie(out, logsumexp, first_queries, first_keys, queries, keys, random, more_random, std::ignore) =
        at::_scaled_dot_product_cudnn_attention(q, k, v, {}, true, dropout, true);
  }
  return {.out = concatenate_heads(out),
          .saved = {qkv, out, logsumexp, first_queries, first_keys, random, more_random},
          .longest_queries = queries.expect_int(),
          .longest_keys = keys.expect_int()};
}

at::Tensor one_kernel_backward(const at::Tensor& dout, const Attended& forward, const AttentionForm& form,
                               double dropout) {
  const auto& saved = forward.saved;
  const at::Tensor& qkv = saved[0];
  const auto [q, k, v] = split_heads(qkv, form);
  const at::Tensor upstream = heads_of(dout, form.n_head);
  at::Tensor dq, dk, dv;
  if (takes_flash(qkv, form, dropout)) {
    std::tie(dq, dk, dv) = at::_scaled_dot_product_flash_attention_backward(
        upstream, q, k, v, saved[1], saved[2], saved[3], saved[4], forward.longest_queries, forward.longest_keys,
        dropout, true, saved[5], saved[6]);
  } else {
    std::tie(dq, dk, dv) = at::_scaled_dot_product_cudnn_attention_backward(
        upstream, q, k, v, saved[1], saved[2], saved[5], saved[6], {}, saved[3], saved[4], forward.longest_queries,
        forward.longest_keys, dropout, true);
  }
  return at::cat({concatenate_heads(dq), concatenate_heads(dk), concatenate_heads(dv)}, 2);
}

// Attention in a window. Dilated attention is local attention over R interleaved texts: tokens [B, T, H D] are seen as
// [B, T / R, R H, D], with T padded to a multiple of R. What is padded lies in the future of all queries.
std::int64_t interleaved_texts(std::int64_t time, const AttentionForm& form) {
  return std::min(form.pattern.dilation, time);
}

at::Tensor interleaved(const at::Tensor& heads, const AttentionForm& form) {  // [B, T, any, D] -> [B, T / R, R any, D]
  const std::int64_t texts = interleaved_texts(heads.size(1), form), missing = (texts - heads.size(1) % texts) % texts;
  const at::Tensor padded = missing == 0 ? heads : at::constant_pad_nd(heads, {0, 0, 0, 0, 0, missing});
  return padded.unflatten(1, {-1, texts}).flatten(2, 3);
}

at::Tensor in_order(const at::Tensor& heads, std::int64_t time, const AttentionForm& form) {  // and back
  return heads.unflatten(2, {interleaved_texts(time, form), -1}).flatten(1, 2).narrow(1, 0, time);
}

Heads interleaved_heads(const at::Tensor& qkv, const AttentionForm& form) {
  const at::Tensor heads = qkv.unflatten(2, {-1, form.head_size});
  return {interleaved(heads.narrow(2, 0, form.n_head), form),
          interleaved(heads.narrow(2, form.n_head, form.n_kv_head), form),
          interleaved(heads.narrow(2, form.n_head + form.n_kv_head, form.n_kv_head), form)};
}

// Calls body(first, count) for as many of the interleaved texts at a time as FlashAttention takes: it has a block of
// threads along the grid's z for each head.
template <typename Body>
void in_grids(std::int64_t texts, std::int64_t n_head, const Body& body) {
  const std::int64_t at_once = largest_grid_yz / n_head;
  for (std::int64_t first = 0; first < texts; first += at_once) body(first, std::min(at_once, texts - first));
}

Heads narrowed(const Heads& heads, const AttentionForm& form, std::int64_t first, std::int64_t count) {
  const auto part = [&](const at::Tensor& all, std::int64_t each) { return all.narrow(2, first * each, count * each); };
  return {part(heads.queries, form.n_head), part(heads.keys, form.n_kv_head), part(heads.values, form.n_kv_head)};
}

at::Tensor joined(const std::vector<at::Tensor>& parts) { return parts.size() == 1 ? parts[0] : at::cat(parts, 2); }

Attended windowed(const at::Tensor& qkv, const AttentionForm& form, double dropout) {
  const Heads heads = interleaved_heads(qkv, form);
  Attended attended = {.out = {}, .saved = {qkv}};
  std::vector<at::Tensor> outs;
  in_grids(interleaved_texts(qkv.size(1), form), form.n_head, [&](std::int64_t first, std::int64_t count) {
    const auto [q, k, v] = narrowed(heads, form, first, count);
    const auto [out, logsumexp, random, more_random, debug] = at::_flash_attention_forward(
        q, k, v, {}, {}, q.size(1), k.size(1), dropout, true /* causal */, false, {}, form.pattern.window - 1, 0);
    outs.push_back(out);
    for (const at::Tensor& kept : {out, logsumexp, random, more_random}) attended.saved.push_back(kept);
  });
  attended.out = in_order(joined(outs), qkv.size(1), form).flatten(2);
  return attended;
}

at::Tensor windowed_backward(const at::Tensor& dout, const Attended& forward, const AttentionForm& form,
                             double dropout) {
  const at::Tensor& qkv = forward.saved[0];
  const Heads heads = interleaved_heads(qkv, form);
  const at::Tensor upstream = interleaved(dout.unflatten(2, {-1, form.head_size}), form);
  std::vector<at::Tensor> all_dq, all_dk, all_dv;
  auto saved = forward.saved.begin() + 1;
  in_grids(interleaved_texts(qkv.size(1), form), form.n_head, [&](std::int64_t first, std::int64_t count) {
    const auto [q, k, v] = narrowed(heads, form, first, count);
    const at::Tensor of_these = upstream.narrow(2, first * form.n_head, count * form.n_head);
    const auto [dq, dk, dv] =
        at::_flash_attention_backward(of_these, q, k, v, saved[0], saved[1], {}, {}, q.size(1), k.size(1), dropout,
                                      true /* causal */, saved[2], saved[3], {}, form.pattern.window - 1, 0);
    all_dq.push_back(dq);
    all_dk.push_back(dk);
    all_dv.push_back(dv);
    saved += 4;
  });
  const auto ordered = [&](const auto& parts) { return in_order(joined(parts), qkv.size(1), form); };
  return at::cat({ordered(all_dq), ordered(all_dk), ordered(all_dv)}, 2).flatten(2);
}

}  // namespace

// FlashAttention and cuDNN take bfloat16 and these sizes of heads, and no mask of documents. A recorded step could give
// FlashAttention their lengths, filled up to a fixed number with empty ones; that has not been tried.
bool attends(at::ScalarType dtype, const AttentionForm& form, bool has_positions) {
  return has_kernels(form) && !has_positions && dtype == at::kBFloat16 && form.head_size % 8 == 0 &&
         form.head_size <= 128;
}

bool cudnn_attends(std::int64_t time, double dropout) {
  const double sixteenths = 16 * dropout;
  return time > 1 && sixteenths == std::floor(sixteenths);
}

at::Tensor rotate(const at::Tensor& qkv, const AttentionForm& form, const Rotation& rotation, bool back) {
  const at::Tensor in = qkv.contiguous(), out = at::empty_like(in);
  with_kernels(in, [&](const auto& kernels, auto element) {
    using Element = decltype(element);
    kernels.rotate(elements<Element>(in), elements<Element>(out), floats(rotation.cosines), floats(rotation.sines),
                   rotation.cosines.size(0), back ? -1.0f : 1.0f, in.numel() / form.packed(), form.packed(),
                   form.n_head + form.n_kv_head, form.head_size, current_stream());
  });
  return out;
}

Attended attention(const at::Tensor& qkv, const AttentionForm& form, const DropoutPlace& dropout,
                   const at::Tensor& /*positions*/) {
  return form.pattern.is_full() ? one_kernel(qkv, form, dropout.probability) : windowed(qkv, form, dropout.probability);
}

at::Tensor attention_backward(const at::Tensor& dout, const Attended& forward, const AttentionForm& form,
                              const DropoutPlace& dropout, const at::Tensor& /*positions*/) {
  return form.pattern.is_full() ? one_kernel_backward(dout, forward, form, dropout.probability)
                                : windowed_backward(dout, forward, form, dropout.probability);
}

}  // namespace inkling::cuda
