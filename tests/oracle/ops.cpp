#include "tests/oracle/ops.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/erf.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tanh.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "base/random.h"

namespace inkling::oracle {

at::Tensor Dropout::operator()(const at::Tensor& x) {
  if (probability == 0.0) return x;
  const std::uint64_t place_key = mix64(key + ++place * golden_gamma);
  const auto threshold = static_cast<std::uint64_t>(probability * 4294967296.0);
  const at::Tensor factors = at::empty(x.sizes(), at::kDouble);
  double* const values = factors.data_ptr<double>();
  for (std::int64_t i = 0; i < factors.numel(); ++i) {
    const bool kept = (random_bits(place_key, static_cast<std::uint64_t>(i)) >> 32) >= threshold;
    values[i] = kept ? 1.0 / (1.0 - probability) : 0.0;
  }
  return x * factors.to(x.options().requires_grad(false));
}

at::Tensor embedding(const at::Tensor& tokens, const at::Tensor& token_table, const at::Tensor& position_table) {
  const at::Tensor rows = token_table.index_select(0, tokens.flatten());
  return rows.view({tokens.size(0), tokens.size(1), -1}) + position_table.slice(0, 0, tokens.size(1));
}

at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const at::Tensor centered = x - x.mean(-1, true);
  const at::Tensor variance = (centered * centered).mean(-1, true);
  const at::Tensor scaled = centered / (variance + 1e-5).sqrt() * weight;
  return bias.defined() ? scaled + bias : scaled;
}

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const at::Tensor product = at::matmul(x, weight);
  return bias.defined() ? product + bias : product;
}

at::Tensor gelu(const at::Tensor& x, bool exact) {
  if (exact) return 0.5 * x * (1.0 + at::erf(x / std::numbers::sqrt2));
  return 0.5 * x * (1.0 + at::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

at::Tensor causal_attention(const at::Tensor& qkv, const AttentionForm& form, Dropout& dropout) {
  const std::int64_t batch = qkv.size(0), time = qkv.size(1);
  const auto head_view = [&](std::int64_t first, std::int64_t heads) {  // [B, heads, T, D]
    return qkv.slice(2, first, first + heads * form.head_size)
        .reshape({batch, time, heads, form.head_size})
        .permute({0, 2, 1, 3});
  };
  const at::Tensor queries = head_view(0, form.n_head);
  const at::Tensor keys = head_view(form.queries(), form.n_kv_head).repeat_interleave(form.group(), 1);
  const at::Tensor values = head_view(form.queries() + form.keys(), form.n_kv_head).repeat_interleave(form.group(), 1);
  const double root = std::sqrt(static_cast<double>(queries.size(3)));
  const at::Tensor hidden =
      at::full({time, time}, -std::numeric_limits<double>::infinity(), qkv.options().requires_grad(false));
  double* const mask = hidden.data_ptr<double>();
  for (std::int64_t query = 0; query < time; ++query) {
    std::int64_t seen = 0;
    for (std::int64_t key = query; key >= 0 && seen < form.pattern.window; key -= form.pattern.dilation, ++seen) {
      mask[query * time + key] = 0.0;
    }
  }
  const at::Tensor scores = at::matmul(queries, keys.permute({0, 1, 3, 2})) / root + hidden;
  const at::Tensor heads = at::matmul(dropout(at::softmax(scores, -1)), values);
  return heads.permute({0, 2, 1, 3}).reshape({batch, time, form.queries()});
}

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets) {
  const at::Tensor wanted = targets.flatten();
  const at::Tensor scored = wanted.ne(-1);
  const at::Tensor log_probabilities = at::log_softmax(logits.reshape({-1, logits.size(-1)}), -1);
  const at::Tensor picked = log_probabilities.gather(1, wanted.clamp_min(0).unsqueeze(1)).squeeze(1);
  return -(picked * scored).sum() / scored.sum();
}

}  // namespace inkling::oracle
